import FoundationEssentials
import Glibc
import Platform
import Simulation
import XMPPCore

/// `pushwake app-server`: receives pushes of an XMPP server (XEP-0357) as its component (XEP-0114). It starts a worker for each
/// push with the right node and secret.
struct AppServerCommand {
    private let address: ComponentStream.Address
    private let devices: [PushDevice]
    private let worker: [String]
    private let limit: Duration
    private let log: AppServerLog

    init(_ words: [String]) throws {
        let parts = words.split(separator: "--", maxSplits: 1, omittingEmptySubsequences: false)
        let arguments = try Arguments(Array(parts[0]), of: "app-server")
        guard parts.count == 2, !parts[1].isEmpty else {
            throw UsageError("the worker's command is missing; write it after --")
        }
        worker = Array(parts[1])
        let domain = try ConnectionOptions.address(try arguments.required("--component"), "--component")
        address = ComponentStream.Address(
            host: arguments.value("--host") ?? "127.0.0.1",
            port: UInt16(try arguments.number("--port", in: 1...65535, default: 5347)),
            domain: domain.description, secret: try Self.secret(arguments))
        devices = try Self.readDevices(try arguments.required("--devices"))
        limit = .seconds(try arguments.number("--time-limit", in: 1...3600, default: 30))
        log = AppServerLog(isJSON: arguments.has("--json"))
    }

    func run() throws -> Int32 {
        // The worker inherits the variables, and must not learn the server's secret.
        unsetenv(Self.variable)
        let log = log
        let starter = WorkerStarter(worker, limit: limit) { log.tell($0) }
        let server = try AppServer(address, desk: PushDesk(devices)) { event in
            log.tell(event)
            guard case .desk(.push(let device)) = event else { return }
            do {
                try starter.wake(device.node)
            } catch {
                log.tell(WorkerStarter.Event.failed(node: device.node, reason: "\(error)"))
            }
        }
        server.serve()
        return 0
    }

    // MARK: Secrets

    private static let variable = "PUSHWAKE_COMPONENT_SECRET"

    /// Reads the secret from the environment or a file, never from the command line, which other users can read.
    private static func secret(_ arguments: Arguments) throws -> String {
        let first = try arguments.firstLine(of: "--secret-file", "secret")
        guard let secret = first ?? ThisProcess.environment(variable) else {
            throw UsageError(
                "set the environment variable \(variable) to the component's secret, or name a file that holds it with --secret-file"
            )
        }
        return secret
    }

    private static func readDevices(_ file: String) throws -> [PushDevice] {
        guard let status = try? FileStatus(file), let data = try? Data(contentsOf: URL(filePath: file)) else {
            throw CommandFailure("the file of devices \(file) cannot be read")
        }
        guard !status.isOpenToOthers else {
            throw CommandFailure(
                "the file of devices \(file) holds secrets and others can read it; chmod 600 it")
        }
        guard let devices = try? JSONDecoder().decode([PushDevice].self, from: data) else {
            throw CommandFailure(
                "the file of devices \(file) must be a JSON list of objects with account, node and secret")
        }
        for device in devices {
            guard (try? JID(device.account)) != nil, !device.node.isEmpty, !device.secret.isEmpty else {
                throw CommandFailure(
                    "the device '\(device.node)' in \(file) needs a node, a secret and an account such as romeo@montague.example"
                )
            }
        }
        return devices
    }
}
