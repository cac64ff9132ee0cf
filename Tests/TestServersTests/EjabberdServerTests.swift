import FoundationEssentials
import Glibc
import TestThreads
import TestSupport
import Testing
import TestServers

/// One test for all of its life, because every start takes seconds.
@Suite(.ownThread) struct EjabberdServerTests {
    private let files: CertificateFolder

    init() throws { files = try CertificateFolder() }

    private func children() -> Set<Int32> {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return Set(names.compactMap { Int32($0) })
    }

    @Test(
        "W6 ejabberd offers STARTTLS and direct TLS, keeps accounts over a restart, and leaves nothing behind"
    )
    func life() throws {
        let server = try files.ejabberd("one")
        try server.addAccount("romeo", password: #"quote " backslash \ ü"#)
        try server.start()
        for starttls in [true, false] {
            let features = try RawClient(server, authority: files.authority, starttls: starttls).open()
            for expected in [
                "SCRAM-SHA-256", "urn:xmpp:sasl:2", "urn:xmpp:bind:0", "urn:xmpp:sm:3", "urn:xmpp:fast:0",
            ] {
                #expect(
                    features.contains(expected), "STARTTLS \(starttls): \(expected) is missing in \(features)"
                )
            }
        }
        #expect(server.version.wholeMatch(of: /ejabberd \d+\.\d+/) != nil, "\(server.version)")
        #expect(!server.log.contains("[error]"), "\(server.log)")
        let processID = try #require(server.processID)
        let error = #expect(throws: TestServerError.self) { try server.start() }
        #expect(error?.code == .wrongState)

        let client = { try RawClient(server, authority: files.authority) }
        #expect(try client().logIn("romeo", #"quote " backslash \ ü"#) == "success")
        try server.addAccount("juliet", password: "first")
        #expect(try client().logIn("juliet", "first") == "success")
        try server.addAccount("juliet", password: "second")
        #expect(try client().logIn("juliet", "first") == "failure")
        #expect(try client().logIn("juliet", "second") == "success")

        server.close()
        #expect(server.processID == nil)
        #expect(hasEnded(processID, deadline: .now + .seconds(20)))
        #expect(throws: ChildProcessError.self) { try client().open() }
        // Nothing of Erlang is left that knows this folder, be it a port program or a name server.
        let folder = server.folder
        #expect(
            becomesTrue(before: .now + .seconds(20)) {
                !children().contains { process in
                    let line =
                        (try? String(contentsOfFile: "/proc/\(process)/environ", encoding: .utf8)) ?? ""
                    return line.contains(folder)
                }
            })

        try server.start()
        #expect(try client().logIn("juliet", "second") == "success", "the data is kept")
        server.kill()
        #expect(server.processID == nil)
    }

    @Test("W6 an ejabberd that cannot start says why")
    func cannotStart() throws {
        var options = EjabberdOptions()
        options.addedConfiguration = "no_such_option: 1"
        let server = try files.ejabberd("one", options: options)
        let error = #expect(throws: TestServerError.self) { try server.start() }
        #expect(error?.code == .startFailed)
        #expect(error?.message.contains("no_such_option") == true, "\(String(describing: error))")
        #expect(server.processID == nil)
    }
}
