import Handlers
@testable import Omemo
import Synchronization
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Romeo and Juliet, both ours, on a scripted server with PEP, whose log holds every stanza.
final class ScriptedScene {
    let folder: TemporaryFolder
    let server: ScriptedServer
    private let certificates: TestCertificates
    private var devices: [Ours] = []
    /// What every account logged.
    let log = KeptLog()
    let refusals = Refusals()

    /// While it is on, a message with content never arrives: the connection breaks instead.
    final class Refusals: Sendable {
        private let state = Mutex((isOn: false, messages: [Element]()))

        var isOn: Bool {
            get { state.withLock { $0.isOn } }
            set { state.withLock { $0.isOn = newValue } }
        }

        /// What did not arrive, each time that it was sent.
        var messages: [Element] { state.withLock { $0.messages } }

        func judge(_ element: Element) -> ServerVerdict {
            state.withLock { state in
                guard state.isOn, element.name == "message", element.serialized().contains("<payload") else {
                    return .pass
                }
                state.messages.append(element)
                return .closeConnection
            }
        }
    }

    static let romeo = "romeo@localhost"
    static let juliet = "juliet@localhost"
    static let password = "a password of its own"

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
        var configuration = ScriptedServer.Configuration(
            accounts: ["romeo": Self.password, "juliet": Self.password],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        configuration.logsXML = true
        configuration.behavior.reportsLostCount = false
        let refusals = refusals
        configuration.script = { element, _ in refusals.judge(element) }
        server = try ScriptedServer(configuration)
        try server.start()
        let pep = PEPService()
        for jid in [Self.romeo, Self.juliet] { pep.serve(try JID(jid), on: server) }
    }

    /// The authority of the server's certificate.
    var authorityFile: String { certificates.authorityFile }

    /// A device, connected and with its keys on the server.
    func device(_ jid: String) async throws -> Ours {
        var configuration = AccountConfiguration(
            jid: try JID(jid), password: Self.password,
            server: .init(host: server.host, port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: certificates.authorityFile)
        configuration.modules = .standard + [OmemoModule()]
        configuration.log = log.log
        let device = try Ours(file: "\(folder.path)/\(jid).db") { try Account(configuration, store: $0) }
        devices.append(device)
        try await device.account.connect()
        try await device.account.omemo.start()
        try await device.published()
        return device
    }

    /// The arguments of a device in a process of its own; see `OmemoDevice`.
    func arguments(_ jid: String, peer: String, count: Int) -> [String] {
        [
            "\(folder.path)/\(jid).db", jid, Self.password, server.host, String(server.startTLSPort),
            certificates.authorityFile, peer, String(count), "1",
        ]
    }

    func close() async {
        for device in devices { await device.account.close() }
        server.stop()
    }

    /// The messages with content that came from a user, oldest first, each as often as it came.
    func written(by jid: String) throws -> [Element] {
        try server.log.entries.filter { entry in
            entry.event == .received && entry.name == "message"
                && entry.jid?.bare.description == jid && entry.xml?.contains("<payload") == true
        }.map { try Element(parsing: $0.xml ?? "", defaultNamespace: Namespaces.client) }
    }
}

extension Element {
    /// Without what tells that it is sent again (XEP-0198 section 5).
    var withoutDelay: Element {
        var copy = self
        copy.children.removeAll { child in
            if case .element(let element) = child { element.namespace == Namespaces.delay } else { false }
        }
        return copy
    }
}
