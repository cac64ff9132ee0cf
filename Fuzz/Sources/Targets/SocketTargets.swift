import Glibc
@testable import Handlers
import Platform
import Simulation
import Synchronization
@testable import XMPPAccount
@testable import XMPPTransport
import XMPPCore

extension FuzzTarget {
    /// Both ends of the socket on which an owner answers. Whatever anybody says to it, the owner gives the next caller
    /// an answer; whatever stands in its place, a caller gets one of the known answers or none.
    static let ownerSocket = FuzzTarget("owner-socket", .short, maximumLength: 64) { bytes in
        let ends = try ownerEnds.made()
        guard let first = bytes.first, first % 2 == 0 else {
            ends.impostor.content.withLock { $0 = Array(bytes.dropFirst()) }
            let answer = try ends.ask(ends.impostorPath)
            return try require(
                answer?.rawValue == bytes.dropFirst().first.flatMap { OwnerAnswer(rawValue: $0)?.rawValue },
                "an impostor's \(bytes.dropFirst()) is read as \(String(describing: answer))")
        }
        try ends.say(Array(bytes.dropFirst()))
        // One who is held up for 20 ms between connecting and asking is hung up on, and asks again.
        let answers = (0..<5).lazy.map { _ in try? ends.ask(ends.ownerPath) }
        try require(answers.contains(.keeping), "after \(bytes.dropFirst()) the owner does not answer")
    }

    private static let ownerEnds = Result { () throws in try OwnerEnds() }

    /// The stream of an external component: what a server sends, up to what the push service makes of it. The answers
    /// are stanzas.
    static let component = FuzzTarget("component", dictionary: "xml") { bytes in
        let peer = try componentPeer.made()
        peer.content.withLock { $0 = componentStart + bytes }
        let stream = try ComponentStream(
            .init(host: "127.0.0.1", port: peer.port, domain: "push.example", secret: "s"), interrupt: -1)
        defer { stream.close() }
        let device = PushDevice(account: FuzzAccount.own, node: "n", secret: "s")
        let desk = PushDesk([device])
        while let element = try stream.nextElement() {
            let decision = desk.decide(element)
            if let reply = decision.reply { _ = try IQ(element: reply) }
            if case .push(let woken) = decision.event {
                let publication = try IQ(element: element)
                let server = publication.from
                try require(
                    woken == device && server?.resource == nil && server?.domain == "capulet.example",
                    "\(element) wakes \(woken)")
            }
        }
    }

    private static let componentPeer = Result { () throws in try FuzzPeer(.stream) }
    private static let componentStart = Array(
        "<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' id='i' from='push.example'><handshake/>"
            .utf8)

    /// What a name server answers: the question ends in time, and only complete records are used, each once.
    static let dns = FuzzTarget("dns", .short, maximumLength: 512) { bytes in
        let peer = try dnsPeer.made()
        peer.content.withLock { $0 = bytes }
        let query = try NameQuery(servers: ["127.0.0.1:\(peer.port)"])
        let services = query.services(of: "_xmpp-client._tcp.capulet.example")
        let addresses = query.addresses(of: "capulet.example", port: 5222)
        // This thread waits, and uses it afterwards.
        nonisolated(unsafe) let asked = query
        let result = try EventLoop.run { await asked.wait(until: .after(.seconds(10)), on: $0) }
        try require(result == .ready, "the question is not answered within 10 s")
        if case .found(let found) = addresses.answer { _ = SocketAddress.interleaved(found).map(\.text) }
        guard case .found(let records) = services.answer else { return }
        var generator = SystemRandomNumberGenerator()
        let targets = ServiceTargets.ordered(secure: [], plain: records, using: &generator)
        let usable = records.filter { !$0.host.isEmpty && $0.host != "." && $0.port > 0 }
        try require(targets.count == usable.count, "of \(usable.count) records \(targets.count) are used")
    }

    private static let dnsPeer = Result { () throws in
        // The answer's header and question must be the question's own, or nobody reads on.
        try FuzzPeer(.datagrams) { question, content in
            var flags = Bytes(content)
            let (bits, code) = (flags.byte(), flags.byte())
            var answer = question
            guard answer.count > 12 else { return answer }
            answer[2] = 0x80 | bits & 0x7D
            answer[3] = code
            (answer[6], answer[7]) = (0, flags.byte())
            (answer[8], answer[9], answer[10], answer[11]) = (0, 0, 0, 0)
            // Without what follows the question, such as EDNS.
            return Array(answer.prefix(questionEnd(answer))) + flags.rest
        }
    }

    private static func questionEnd(_ message: [UInt8]) -> Int {
        var place = 12
        while place < message.count, message[place] != 0 { place += Int(message[place]) + 1 }
        return min(message.count, place + 5)
    }
}

/// A socket that an owner answers on, and one where something else does.
private final class OwnerEnds: Sendable {
    /// Named in errors only.
    let database: String
    let ownerPath: String
    let impostorPath: String
    let impostor: FuzzPeer
    private let answers = OwnerAnswers(ThreadDriver().makeSharedSignal())
    private let loop: any RunningLoop

    init() throws {
        let folder = try ScratchFolder.make()
        database = folder + "/store.db"
        (ownerPath, impostorPath) = (folder + "/owner", folder + "/impostor")
        impostor = try FuzzPeer(unix: impostorPath)
        let listener = try OwnerSocket.listen(path: ownerPath, beside: database)
        loop = try ThreadDriver().startShared { [answers] in answers.makeLoop(listener) }
        answers.expect(1, of: self)
        answers.answer(1, of: self) { question in question == .isAlive ? .keeping : .releasing }
    }

    func ask(_ path: String) throws -> OwnerAnswer? {
        try EventLoop.run { [database] loop in
            await OwnerSocket.ask(
                .isAlive, account: 1, path: path, beside: database, until: .after(.seconds(30)), on: loop)
        }
    }

    /// Says something and hangs up without waiting for an answer.
    func say(_ bytes: [UInt8]) throws {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        guard withUnixAddress(ownerPath, { connect(descriptor, $0, $1) }) == 0 else {
            throw Finding("nobody listens at the owner's socket")
        }
        _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
