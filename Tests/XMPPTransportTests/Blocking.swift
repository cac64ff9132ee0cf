import Platform

@testable import XMPPTransport

// The functions that wait, for tests that run on a thread of their own.

/// - Parameter interrupt: A descriptor that becomes readable when the call is to be canceled.
private func blocking<Value>(
    _ interrupt: Int32?, _ body: @escaping @Sendable (EventLoop) async throws -> sending Value
) throws(TransportError) -> Value {
    do {
        return try EventLoop.run(interrupt: interrupt, body)
    } catch {
        throw error as? TransportError ?? TransportError(.systemFailure, "\(error)")
    }
}

extension Socket {
    static func connect(
        host: String, port: UInt16, deadline: Deadline, interrupt: Int32? = nil
    ) throws(TransportError) -> Socket {
        try blocking(interrupt) { try await .connect(host: host, port: port, deadline: deadline, on: $0) }
    }
}

extension Connection {
    static func connect(
        host: String, port: UInt16, deadline: Deadline, interrupt: Int32? = nil
    ) throws(TransportError) -> Connection {
        try blocking(interrupt) { try await .connect(host: host, port: port, deadline: deadline, on: $0) }
    }

    func startTLS(
        _ context: TLSContext, domain: String, offersProtocol: Bool = false, deadline: Deadline,
        interrupt: Int32? = nil
    ) throws(TransportError) {
        // The calling thread waits, and uses it afterwards.
        nonisolated(unsafe) let connection = self
        try blocking(interrupt) {
            try await connection.startTLS(
                context, domain: domain, offersProtocol: offersProtocol, deadline: deadline, on: $0)
        }
    }

    /// Protects the connection from here on, as the server.
    func acceptTLS(_ context: TLSContext, deadline: Deadline) throws(TransportError) {
        nonisolated(unsafe) let connection = self
        try blocking(nil) {
            try await connection.flush(until: deadline, on: $0)
            try connection.startServerHandshake(context)
            try await connection.finishHandshake(until: deadline, on: $0)
        }
    }

    func closeClean(until deadline: Deadline = .after(.seconds(1))) {
        nonisolated(unsafe) let connection = self
        try? blocking(nil) { await connection.closeClean(until: deadline, on: $0) }
    }
}

extension AddressLookup {
    static func addresses(
        of host: String, port: UInt16, servers: [String] = [], deadline: Deadline, interrupt: Int32?
    ) throws(TransportError) -> [SocketAddress] {
        try blocking(interrupt) {
            try await addresses(of: host, port: port, servers: servers, deadline: deadline, on: $0)
        }
    }
}

extension ServiceTargets {
    static func lookUp(
        _ domain: String, servers: [String], deadline: Deadline, interrupt: Int32?
    ) throws(TransportError) -> [ServiceTarget] {
        try blocking(interrupt) {
            try await lookUp(domain, servers: servers, deadline: deadline, on: $0)
        }
    }
}

extension ConnectAttempts {
    /// `@unchecked Sendable`: the calling thread waits.
    private final class Kept: @unchecked Sendable {
        var attempts: ConnectAttempts
        init(_ attempts: ConnectAttempts) { self.attempts = attempts }
    }

    mutating func run(until deadline: Deadline, interrupt: Int32?) throws(TransportError) -> Socket {
        let kept = Kept(self)
        defer { self = kept.attempts }
        return try blocking(interrupt) { try await kept.attempts.run(until: deadline, on: $0) }
    }
}
