import XMPPTransport
package import XMPPCore

/// A stream of an external component to its server (XEP-0114).
///
/// The protocol has no encryption, so the server must be on this machine or on a private network.
package final class ComponentStream {
    /// The address of the server and the name of the component.
    package struct Address: Sendable {
        package var host: String
        package var port: UInt16
        /// The component's domain.
        package var domain: String
        /// The shared secret of server and component.
        package var secret: String

        package init(host: String, port: UInt16, domain: String, secret: String) {
            (self.host, self.port, self.domain, self.secret) = (host, port, domain, secret)
        }
    }

    /// The time limit for connecting and the handshake together.
    private static let openLimit = Duration.seconds(15)
    private static let writeLimit = Duration.seconds(15)

    private let connection: Connection
    private let parser: StreamParser
    private let interrupt: Int32
    private let serializer = Serializer(contentNamespace: Namespaces.component)
    private var waiting: ArraySlice<StreamParser.Event> = []

    /// Connects and proves to each side that the other knows the secret.
    ///
    /// - Parameter interrupt: A descriptor that becomes readable to stop the wait.
    /// - Throws: `TransportError`, or ``SimulationError`` when the server refuses the component.
    package init(_ address: Address, interrupt: Int32) throws {
        let deadline = Deadline.after(Self.openLimit)
        connection = try EventLoop.run(interrupt: interrupt) {
            try await Connection.connect(host: address.host, port: address.port, deadline: deadline, on: $0)
        }
        parser = try StreamParser()
        self.interrupt = interrupt
        try open(address, deadline)
    }

    private func open(_ address: Address, _ deadline: Deadline) throws {
        connection.write(Serializer.streamHeader(to: address.domain, contentNamespace: Namespaces.component))
        try connection.flush(until: deadline, interrupt: interrupt)
        guard case .opened(let header) = try next(deadline), let id = header["id"] else {
            throw SimulationError(
                "the server started no stream for \(address.domain); is that the port for components?")
        }
        let digest = Crypto.digest(.sha1, "\(id)\(address.secret)".utf8).hexadecimal
        try send(Element("handshake", namespace: Namespaces.component, children: []).with(text: digest))
        guard case .element(let answer) = try next(deadline),
            answer.has(name: "handshake", namespace: Namespaces.component)
        else {
            throw SimulationError(
                "the server refused the component \(address.domain); compare its name and secret with the server's configuration"
            )
        }
    }

    func send(_ element: Element) throws {
        connection.write(serializer.bytes(element))
        try connection.flush(until: .after(Self.writeLimit), interrupt: interrupt)
    }

    /// Returns the next element. An unreadable request is answered with an error, and other unreadable elements are dropped.
    ///
    /// - Returns: Nil when the stream has ended.
    /// - Throws: `TransportError`, `interrupted` among them; `StreamParserError`.
    package func nextElement() throws -> Element? {
        while let event = try next(.never) {
            switch event {
            case .element(let element): return element
            case .refused(let refused): if let reply = refused.reply { try send(reply) }
            case .opened, .closed: return nil
            }
        }
        return nil
    }

    /// - Returns: Nil at the end of the connection.
    private func next(_ deadline: Deadline) throws -> StreamParser.Event? {
        var bytes: [UInt8] = []
        while waiting.isEmpty {
            bytes.removeAll(keepingCapacity: true)
            switch try connection.read(into: &bytes) {
            case .bytes: waiting = try parser.parse(bytes)[...]
            case .closed: return nil
            case .wouldBlock: try wait(deadline)
            }
        }
        return waiting.popFirst()
    }

    private func wait(_ deadline: Deadline) throws {
        switch try connection.wait(until: deadline, interrupt: interrupt) {
        case .ready: break
        case .interrupted: throw TransportError(.interrupted, "The component was stopped.")
        case .timedOut:
            throw SimulationError("\(connection.peer) does not answer; is that the port for components?")
        }
    }

    package func close() {
        connection.write(Serializer.streamEnd)
        _ = try? connection.flush()
        connection.closeDirty()
    }
}

extension Element {
    fileprivate func with(text: String) -> Element {
        var element = self
        element.append(text: text)
        return element
    }
}
