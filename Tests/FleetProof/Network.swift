import Foundation
import Platform
import TestServers

/// Where the servers of a fleet listen, so that machines with networks of their own reach them.
///
/// A process that only sleeps has a network, too, and the servers listen at this side of the line to it: when this program ends, however
/// it does, the kernel removes the address with it.
final class Network {
    private let process: ChildProcess
    private let line: Line

    /// - Throws: Where this process may make no networks.
    init() throws {
        process = try Line.start(["/usr/bin/sleep", "infinity"], folder: "/", output: .null, errors: .null)
        line = Line(0)
        try line.join(process.processID)
    }

    deinit { process.killAndWait() }

    var address: UInt32 { line.outside }
    var host: String { Line.text(address) }
}

/// The line to a process with a network of its own: a pair of interfaces, one of them inside. The kernel removes both with that process.
struct Line {
    /// The addresses of both ends, from the block for tests of networks (RFC 2544).
    let outside, inside: UInt32
    private let interface: String

    /// - Parameter number: 0 to 15, each once in this program.
    init(_ number: Int) {
        // Several fleets may run at the same time.
        let own = UInt32(ThisProcess.id) &* 16 &+ UInt32(number)
        outside = 0xC612_0001 | (own & 0x7FFF) << 2
        inside = outside + 1
        interface = "fleet\(ThisProcess.id).\(number)"
    }

    static func text(_ address: UInt32) -> String {
        [24, 16, 8, 0].map { "\(address >> $0 & 255)" }.joined(separator: ".")
    }

    /// Starts a program with a network of its own, where it finds nothing before ``join(_:)``.
    static func start(
        _ command: [String], folder: String, input: ChildProcess.Input = .null, output: ChildProcess.Output,
        errors: ChildProcess.Output
    ) throws -> ChildProcess {
        try ChildProcess(
            "/usr/bin/unshare", ["--net", "--"] + command, folder: folder, input: input, output: output,
            errors: errors)
    }

    /// Connects a process that has a network of its own, or is about to have it.
    func join(_ process: Int32) throws {
        let link = "/proc/self/ns/net"
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: link)
        let end = ContinuousClock.now + .seconds(10)
        while try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/ns/net") == own {
            guard ContinuousClock.now < end else { throw FleetError(what: "there is no network") }
            SystemThread.sleep(microseconds: 1000)
        }
        try ip(
            "link", "add", interface, "type", "veth", "peer", "name", "eth0", "netns", "\(process)")
        try ip("address", "add", "\(Self.text(outside))/30", "dev", interface)
        try set("up")
        for words in [
            ["address", "add", "\(Self.text(inside))/30", "dev", "eth0"], ["link", "set", "eth0", "up"],
            ["link", "set", "lo", "up"], ["route", "add", "default", "via", Self.text(outside)],
        ] {
            try run("nsenter", ["--target", "\(process)", "--net", "ip"] + words)
        }
    }

    /// - Parameter state: `up` or `down`.
    func set(_ state: String) throws { try ip("link", "set", interface, state) }

    /// Has everything that a process inside sends from a port be lost, or arrive again.
    func lose(_ isLost: Bool, from port: String, of process: Int32) throws {
        let rule = ["pref", "1", "ipproto", "tcp", "sport", port, "blackhole"]
        try run(
            "nsenter", ["--target", "\(process)", "--net", "ip", "rule", isLost ? "add" : "del"] + rule)
    }

    private func ip(_ words: String...) throws { try run("ip", words) }

    private func run(_ program: String, _ words: [String]) throws {
        let child = try ChildProcess(program, words, errors: .null)
        let ending = try child.waitUntilExit(deadline: .now + .seconds(10))
        guard ending.succeeded else {
            throw FleetError(what: "\(program) \(words.joined(separator: " ")): \(ending)")
        }
    }
}
