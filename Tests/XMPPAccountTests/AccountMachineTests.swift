import Handlers
import TestThreads
import Testing

@testable import XMPPAccount

/// All transitions of an account's state machine: for each state and each input from outside the actions and the next state.
@Suite("The states of an account", .ownThread, .serialized) struct AccountMachineTests {
    /// A state and the inputs that lead to it from the start.
    enum Start: String, CaseIterable, Sendable {
        case idle, opening, reopening, open, openWithoutCounts, waiting, fenced, closed
    }

    static let caller = AccountMachine.Caller(number: 9)
    static let broken = AccountError(.connectionFailed, "broken")
    static let lost = AccountError(.ownershipLost, "lost")

    /// Inputs that come at any time.
    static let inputs: [(name: String, input: AccountMachine.Input)] = [
        ("connect", .connect(caller, retries: false)),
        ("connect retrying", .connect(caller, retries: true)),
        ("catch up", .catchUp(caller)),
        ("request ack", .requestAck(caller)),
        ("send ack", .sendAck(caller)),
        ("suspend", .suspend(caller)),
        ("log out", .logOut(caller)),
        ("close", .close(caller)),
        ("network changed", .networkChanged),
        ("hand over", .handOver),
        ("ownership lost", .ownershipLost(lost)),
        ("late stream", .opened(attempt: 99)),
        ("late failure", .openingFailed(attempt: 99, broken)),
        ("broke", .broke(StreamFault(broken), isDelivered: true)),
        ("answered", .answered),
        ("time", .time(readAt: .milliseconds(1))),
    ]

    /// What each input does in each state. What is not listed does nothing.
    static let table: [Start: [String: String]] = [
        .idle: [
            "connect": "prepareTLS, takeOver(connect) -> taking over",
            "connect retrying": "prepareTLS, takeOver(reopen) -> taking over",
            "catch up": "finish(connection-failed) -> idle",
            "request ack": "finish(connection-failed) -> idle",
            "send ack": "finish(connection-failed) -> idle",
            "suspend": "finish -> idle",
            "log out": "takeOver(logOut) -> taking over",
            "close": "shutDown, finish -> closed",
            "ownership lost": "abandon, send(stopped) -> fenced",
            "late stream": "discardOpened -> idle",
        ],
        .opening: [
            "connect": " -> opening",
            "connect retrying": " -> opening",
            "catch up": " -> opening",
            "request ack": "finish(connection-failed) -> opening",
            "send ack": "finish(connection-failed) -> opening",
            "suspend": "cancelOpening, finish(closed), release -> idle",
            "log out": "checkOwner -> opening",
            "close": "cancelOpening, finish(closed), release, shutDown, finish -> closed",
            "network changed": " -> opening hinted",
            "hand over": "cancelOpening, finish(closed), release, send(handedOver) -> idle",
            "ownership lost": "cancelOpening, abandon, finish(ownership-lost), send(stopped) -> fenced",
            "late stream": "discardOpened -> opening",
        ],
        .reopening: [
            "request ack": "finish(connection-failed) -> opening",
            "send ack": "finish(connection-failed) -> opening",
            "suspend": "cancelOpening, release -> idle",
            "log out": "checkOwner -> opening",
            "close": "cancelOpening, release, shutDown, finish -> closed",
            "network changed": " -> opening hinted",
            "hand over": "cancelOpening, release, send(handedOver) -> idle",
            "ownership lost": "cancelOpening, abandon, send(stopped) -> fenced",
            "late stream": "discardOpened -> opening",
        ],
        .open: [
            "connect": "finish -> open",
            "connect retrying": "finish -> open",
            "catch up": "requestAck(reported) -> open",
            "request ack": "requestAck(reported), finish -> open",
            "send ack": "acknowledgeFor -> open",
            "suspend": "closeStream(suspended 0), release -> idle",
            "log out": "checkOwner -> open",
            "close": "closeStream(suspended 0), release, shutDown, finish -> closed",
            "network changed": "requestAck -> open",
            "hand over": "closeStream(suspended 0), release, send(handedOver) -> idle",
            "ownership lost": "closeStream(lost), abandon, send(stopped) -> fenced",
            "late stream": "discardOpened -> open",
            "broke": "closeStream(broken) -> owned",
        ],
        .openWithoutCounts: [
            "connect": "finish -> open",
            "connect retrying": "finish -> open",
            "catch up": "finish(protocol-violation) -> open",
            "request ack": "finish(connection-failed) -> open",
            "send ack": "finish(connection-failed) -> open",
            "suspend": "closeStream(suspended), release -> idle",
            "log out": "checkOwner -> open",
            "close": "closeStream(suspended), release, shutDown, finish -> closed",
            "network changed": "ping -> open",
            "hand over": "closeStream(suspended), release, send(handedOver) -> idle",
            "ownership lost": "closeStream(lost), abandon, send(stopped) -> fenced",
            "late stream": "discardOpened -> open",
            "broke": "closeStream(broken) -> owned",
        ],
        .waiting: [
            "connect": "open(2) -> opening",
            "connect retrying": "open(2) -> opening",
            "request ack": "finish(connection-failed) -> waiting 125",
            "send ack": "finish(connection-failed) -> waiting 125",
            "suspend": "release -> idle",
            "log out": "checkOwner -> waiting 125",
            "close": "release, shutDown, finish -> closed",
            "network changed": "open(2) -> opening",
            "hand over": "release, send(handedOver) -> idle",
            "ownership lost": "abandon, send(stopped) -> fenced",
            "late stream": "discardOpened -> waiting 125",
        ],
        .fenced: [
            "connect": "takeOver(connect) -> taking over",
            "connect retrying": "takeOver(reopen) -> taking over",
            "catch up": "finish(connection-failed) -> fenced",
            "request ack": "finish(connection-failed) -> fenced",
            "send ack": "finish(connection-failed) -> fenced",
            "suspend": "finish -> fenced",
            "log out": "finish(ownership-lost) -> fenced",
            "close": "shutDown, finish -> closed",
            "ownership lost": "abandon, send(stopped) -> fenced",
            "late stream": "discardOpened -> fenced",
        ],
        .closed: [
            "late stream": "discardOpened -> closed",
            "ownership lost": "abandon, send(stopped) -> closed",
        ],
    ]

    @Test(
        "Every input in every state does what the table says, and nothing else",
        arguments: Start.allCases, inputs.map(\.name))
    func transitions(start: Start, name: String) throws {
        var machine = try Self.machine(in: start)
        let input = try #require(Self.inputs.first { $0.name == name }).input
        let before = Self.name(machine.state)
        let actions = machine.handle(input, now: .milliseconds(1))
        let expected = Self.table[start]?[name] ?? " -> \(before)"
        #expect("\(Self.names(actions)) -> \(Self.name(machine.state))" == expected)
    }

    @Test("The table names inputs that exist") func names() {
        for row in Self.table.values {
            for name in row.keys { #expect(Self.inputs.contains { $0.name == name }, "\(name)") }
        }
    }

    // MARK: States

    /// Random numbers that are always the least: each wait is half of its ceiling.
    struct Least: RandomNumberGenerator { mutating func next() -> UInt64 { 1 } }

    static func machine(in start: Start) throws -> AccountMachine {
        var machine = AccountMachine(generator: Least())
        let first = AccountMachine.Caller(number: 1)
        var inputs: [AccountMachine.Input] = []
        switch start {
        case .idle: break
        case .opening: inputs = [.connect(first, retries: false), .tookOver(.connect(first), nil)]
        case .open, .openWithoutCounts:
            let rules = rules(isManaged: start == .open)
            inputs = [
                .connect(first, retries: false), .tookOver(.connect(first), nil), .opened(attempt: 1),
                .started(rules),
            ]
        case .waiting, .reopening:
            machine = try self.machine(in: .open)
            inputs = [
                .broke(StreamFault(broken), isDelivered: true), .streamClosed(broken, isFresh: false),
            ]
            if start == .reopening { inputs.append(.networkChanged) }
        case .fenced:
            machine = try self.machine(in: .open)
            inputs = [.ownershipLost(lost)]
        case .closed: inputs = [.close(first)]
        }
        for input in inputs { _ = machine.handle(input, now: .zero) }
        return machine
    }

    static func rules(isManaged: Bool = true, isResumed: Bool = false, now: Duration = .zero) -> StreamRules {
        StreamRules(
            peer: "example.org", isManaged: isManaged, isResumed: isResumed, management: StreamManagement(),
            keepAlive: KeepAlive(interval: .seconds(60), timeout: .seconds(30), openedAt: now), now: now)
    }

    // MARK: Names

    static func names(_ actions: [AccountMachine.Action]) -> String {
        actions.map(name).joined(separator: ", ")
    }

    static func name(_ state: AccountMachine.State) -> String {
        switch state {
        case .unowned(.idle): "idle"
        case .unowned(.fenced): "fenced"
        case .takingOver: "taking over"
        case .owned(.idle): "owned"
        case .owned(.opening(_, let isHinted)): isHinted ? "opening hinted" : "opening"
        case .owned(.open): "open"
        case .owned(.waiting(let until)): "waiting \(until.milliseconds)"
        case .unowned(.waiting(let until)): "waiting for the owner \(until.milliseconds)"
        case .closed: "closed"
        }
    }

    static func name(_ action: AccountMachine.Action) -> String {
        switch action {
        case .prepareTLS: "prepareTLS"
        case .takeOver(.connect): "takeOver(connect)"
        case .takeOver(.reopen): "takeOver(reopen)"
        case .takeOver(.logOut): "takeOver(logOut)"
        case .checkOwner: "checkOwner"
        case .open(let attempt): "open(\(attempt))"
        case .cancelOpening: "cancelOpening"
        case .discardOpened: "discardOpened"
        case .start(let attempt): "start(\(attempt))"
        case .requestAck(let isReported): isReported ? "requestAck(reported)" : "requestAck"
        case .ping: "ping"
        case .acknowledge(let isFenced): isFenced ? "acknowledge" : "acknowledge(checked)"
        case .acknowledgeFor: "acknowledgeFor"
        case .breakStream(let error): "breakStream(\(error.code))"
        case .closeStream(.broken(let fault, _)):
            fault.endsSession ? "closeStream(broken session)" : "closeStream(broken)"
        case .closeStream(.suspended(let ack)): "closeStream(suspended\(ack.map { " \($0)" } ?? ""))"
        case .closeStream(.loggedOut(let ack)): "closeStream(loggedOut\(ack.map { " \($0)" } ?? ""))"
        case .closeStream(.lost): "closeStream(lost)"
        case .release: "release"
        case .abandon: "abandon"
        case .logOut: "logOut"
        case .finish(_, nil): "finish"
        case .finish(_, let error?): "finish(\((error as? AccountError).map { "\($0.code)" } ?? "error"))"
        case .send(.stopped): "send(stopped)"
        case .send(.retrying(let wait, _)): "send(retrying \(wait.milliseconds))"
        case .send(.suspended): "send(suspended)"
        case .send(.handedOver): "send(handedOver)"
        case .send: "send"
        case .shutDown: "shutDown"
        }
    }
}
