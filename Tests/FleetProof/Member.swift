import Foundation
import Platform
import TestServers

/// A machine as the proof sees it: a process with a folder of its own, and its only lines, to the databases and to the XMPP server.
///
/// Where this process may make them, a machine has a network of its own: cutting it off takes its interface down. Elsewhere it is a
/// process group behind proxies, which fall silent.
final class Member {
    let name: String
    private let folder: String
    private let line: Line?
    private let proxies: [LoopbackProxy]
    /// The host of all servers, the ports of the databases, and that of the XMPP server.
    private let host: String
    private let ports: [UInt16]
    private(set) var process: ChildProcess?

    /// - Parameter number: From 1.
    init(_ number: Int, _ servers: borrowing Fleet.Servers) throws {
        name = "machine \(number)"
        folder = "\(servers.folder)/machine\(number)"
        let targets = servers.databases.ports + [servers.server.directTLSPort]
        if let network = servers.network {
            (line, proxies, host, ports) = (Line(number), [], network.host, targets)
        } else {
            let proxies = try targets.map { try LoopbackProxy(to: $0) }
            (line, self.proxies, host, ports) = (nil, proxies, "127.0.0.1", proxies.map(\.port))
        }
    }

    func start(_ servers: borrowing Fleet.Servers, accounts: Int) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let databases = ports.dropLast().map { "\($0)" }.joined(separator: ",")
        let hosts = Array(repeating: host, count: ports.count - 1).joined(separator: ",")
        let command = [
            try BuiltProduct.path("fleet-proof"), "machine", name,
            "\(servers.connection) host=\(hosts) port=\(databases) target_session_attrs=read-write", host,
            "\(ports[ports.count - 1])", servers.authority, "\(accounts)",
        ]
        let log = ChildProcess.Output.file("\(servers.folder)/machines.log")
        let process =
            if line == nil {
                try ChildProcess(
                    command[0], Array(command.dropFirst()), folder: folder, input: .pipe, output: .pipe,
                    errors: log)
            } else {
                try Line.start(command, folder: folder, input: .pipe, output: .pipe, errors: log)
            }
        self.process = process
        _ = try process.output?.readLine(deadline: .now + .seconds(60))
        try line?.join(process.processID)
        try process.write("go\n")
        _ = try process.output?.readLine(deadline: .now + .seconds(60))
    }

    /// Kills the machine, and removes its folder.
    func kill() {
        process?.killAndWait()
        process = nil
        try? FileManager.default.removeItem(atPath: folder)
    }

    func freeze() { process?.signal(Signal.stop) }
    func thaw() { process?.signal(Signal.resume) }

    func cut() throws {
        try line?.set("down")
        for proxy in proxies { proxy.silence() }
    }

    /// Whether single connections of it can be lost.
    var hasNetwork: Bool { line != nil }

    /// Has what it sends from a port be lost, or arrive again.
    func lose(_ isLost: Bool, from port: String) throws {
        if let process { try line?.lose(isLost, from: port, of: process.processID) }
    }

    func join() throws {
        try line?.set("up")
        for proxy in proxies { proxy.resume() }
    }
}
