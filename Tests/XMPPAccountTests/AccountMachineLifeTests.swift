import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// Sequences of inputs, where a row of the table says too little.
@Suite("The life of a stream, decided by a value", .ownThread) struct AccountMachineLifeTests {
    typealias Table = AccountMachineTests

    /// A machine whose actions are compared by name.
    struct Life {
        var machine: AccountMachine

        init(_ start: Table.Start) throws { machine = try Table.machine(in: start) }

        mutating func feed(_ input: AccountMachine.Input, now: Duration = .milliseconds(1)) -> String {
            Table.names(machine.handle(input, now: now))
        }
    }

    static let caller = AccountMachine.Caller(number: 9)

    @Test("X8 a first attempt that fails gives the account back and tells its caller") func firstFails()
        throws
    {
        var life = try Life(.opening)
        #expect(
            life.feed(.openingFailed(attempt: 1, Table.broken)) == "release, finish(connection-failed)")
        #expect(!life.machine.isOwner)
    }

    @Test("X8 attempts of a retrying caller go on, with longer waits, until a stream is open")
    func retries() throws {
        var life = try Life(.idle)
        _ = life.feed(.connect(Self.caller, retries: true))
        #expect(life.feed(.tookOver(.reopen, nil)) == "open(1)")
        #expect(life.feed(.openingFailed(attempt: 1, Table.broken), now: .zero) == "send(retrying 125)")
        #expect(life.feed(.time(readAt: nil), now: .milliseconds(124)) == "")
        #expect(life.feed(.time(readAt: nil), now: .milliseconds(125)) == "open(2)")
        #expect(
            life.feed(.openingFailed(attempt: 2, Table.broken), now: .milliseconds(125))
                == "send(retrying 250)")
        #expect(life.feed(.time(readAt: nil), now: .milliseconds(375)) == "open(3)")
        #expect(life.feed(.opened(attempt: 3)) == "start(3)")
        #expect(life.feed(.started(Table.rules())) == "finish")
    }

    @Test("X8 a retrying caller waits while another process keeps the account, and does not become its owner")
    func held() throws {
        var life = try Life(.idle)
        _ = life.feed(.connect(Self.caller, retries: true))
        let held = AccountError(.ownershipHeld, "held")
        #expect(life.feed(.tookOver(.reopen, held), now: .zero) == "send(retrying 125)")
        #expect(!life.machine.isOwner)
        #expect(life.feed(.time(readAt: nil), now: .milliseconds(125)) == "takeOver(reopen)")
    }

    @Test("X8 an error that stays stops the attempts, gives the account back and tells everyone") func stops()
        throws
    {
        var life = try Life(.reopening)
        _ = life.feed(.catchUp(Self.caller))
        let refused = AccountError(.notAuthorized, "refused")
        #expect(
            life.feed(.openingFailed(attempt: 2, refused))
                == "release, finish(not-authorized), send(stopped)")
    }

    @Test(
        "X8 a caller that connects while a broken stream is opened again is notified of a failure; the attempts go on"
    )
    func toldButGoesOn() throws {
        var life = try Life(.reopening)
        _ = life.feed(.connect(Self.caller, retries: false))
        let actions = life.feed(.openingFailed(attempt: 2, Table.broken), now: .zero)
        #expect(actions.hasPrefix("finish(connection-failed), send(retrying"))
        #expect(life.machine.isOwner)
    }

    @Test("X8 the network changed during an attempt: its failure is followed by the next one at once")
    func hinted() throws {
        var life = try Life(.reopening)
        _ = life.feed(.networkChanged)
        #expect(life.feed(.openingFailed(attempt: 2, Table.broken)) == "open(3)")
    }

    @Test("S15 a program that wants to wait is asked again after that time, however often it waits")
    func postponed() throws {
        var life = try Life(.reopening)
        for (attempt, start) in [(2, Duration.zero), (3, .seconds(90))] {
            #expect(
                life.feed(.postponed(attempt: attempt, .seconds(90)), now: start) == "send(retrying 90000)")
            #expect(life.machine.nextDue == start + .seconds(90))
            #expect(life.feed(.time(readAt: nil), now: start + .seconds(90)) == "open(\(attempt + 1))")
        }
        #expect(life.feed(.postponed(attempt: 2, .seconds(1))) == "")
    }

    @Test("S16 a resumed stream that ends twice before the server answered gives the session up")
    func unheard() throws {
        var life = try Life(.reopening)
        let fault = StreamFault(
            AccountError(.streamError, "bad", cause: StreamError(.notWellFormed)))
        for (attempt, expected) in [(2, "closeStream(broken)"), (3, "closeStream(broken session)")] {
            #expect(life.feed(.opened(attempt: attempt)) == "start(\(attempt))")
            _ = life.feed(.started(Table.rules(isResumed: true)))
            #expect(life.feed(.broke(fault, isDelivered: true), now: .milliseconds(1)) == expected)
            _ = life.feed(.streamClosed(fault.error, isFresh: false))
            _ = life.feed(.networkChanged)
        }
    }

    @Test("S16 an answer in between shows that the server understood: the session stays") func heard() throws
    {
        var life = try Life(.reopening)
        let fault = StreamFault(
            AccountError(.streamError, "bad", cause: StreamError(.notWellFormed)))
        for attempt in 2...4 {
            _ = life.feed(.opened(attempt: attempt))
            _ = life.feed(.started(Table.rules(isResumed: true)))
            _ = life.feed(.committed(StreamManagement(), isAnswer: true))
            #expect(
                life.feed(.broke(fault, isDelivered: true), now: .milliseconds(1)) == "closeStream(broken)")
            _ = life.feed(.streamClosed(fault.error, isFresh: false))
            _ = life.feed(.networkChanged)
        }
    }

    @Test("S12 callers that wait to have caught up wait for the next stream when theirs breaks")
    func catchesUpLater() throws {
        var life = try Life(.open)
        #expect(life.feed(.catchUp(Self.caller)) == "requestAck(reported)")
        #expect(life.feed(.broke(StreamFault(Table.broken), isDelivered: true)) == "closeStream(broken)")
        _ = life.feed(.streamClosed(Table.broken, isFresh: false))
        _ = life.feed(.networkChanged)
        _ = life.feed(.opened(attempt: 2))
        #expect(life.feed(.started(Table.rules())) == "finish, requestAck(reported)")
        #expect(life.feed(.answered) == "finish")
    }

    @Test("S12 a caller that comes after the ack request waits for the answer to the next one")
    func nextAnswer() throws {
        var life = try Life(.open)
        #expect(life.feed(.catchUp(Self.caller)) == "requestAck(reported)")
        #expect(life.feed(.catchUp(.init(number: 10))) == "")
        #expect(life.feed(.answered) == "finish, requestAck(reported)")
        #expect(life.feed(.answered) == "finish")
    }

    @Test("S12 an answer within a step is followed by an ack request only after the stanzas of that step")
    func requestAfterStanzas() throws {
        var life = try Life(.open)
        _ = life.feed(.catchUp(Self.caller))
        _ = life.feed(.catchUp(.init(number: 10)))
        let management = try #require(life.machine.stream).management
        #expect(life.feed(.committed(management, isAnswer: true)) == "finish")
        #expect(life.feed(.wrote(stanzas: 1)) == "requestAck(reported)")
    }

    @Test(
        "S4 our count is written after a commit without another check, and by time after a check of the epoch"
    )
    func acks() throws {
        var life = try Life(.open)
        var management = try #require(life.machine.stream).management
        management.receiveRequest(now: .milliseconds(1))
        _ = life.feed(.committed(management, isAnswer: false))
        #expect(life.feed(.wrote(stanzas: 0)) == "acknowledge")
        #expect(life.feed(.acknowledged) == "")
        #expect(life.feed(.wrote(stanzas: 0)) == "")
        #expect(life.feed(.ackRequested) == "acknowledge(checked)")
    }

    @Test("X21 a silent server is asked for a proof, and the stream ends when none comes") func silent()
        throws
    {
        var life = try Life(.open)
        #expect(life.feed(.time(readAt: .milliseconds(59_999)), now: .milliseconds(59_999)) == "")
        #expect(life.feed(.time(readAt: .milliseconds(60_000)), now: .milliseconds(60_000)) == "requestAck")
        #expect(life.feed(.time(readAt: nil), now: .milliseconds(90_000)) == "")
        #expect(
            life.feed(.time(readAt: .milliseconds(90_000)), now: .milliseconds(90_000))
                == "breakStream(timed-out)")
    }

    @Test("X21 time in which the process was frozen does not count against the server") func frozen() throws {
        var life = try Life(.open)
        _ = life.feed(.time(readAt: .milliseconds(60_000)), now: .milliseconds(60_000))
        _ = life.feed(.skipped(.seconds(5)), now: .milliseconds(95_000))
        #expect(life.feed(.time(readAt: .milliseconds(94_999)), now: .milliseconds(94_999)) == "")
        #expect(
            life.feed(.time(readAt: .milliseconds(95_000)), now: .milliseconds(95_000))
                == "breakStream(timed-out)")
    }

    @Test("X8 after a change of the network a connection has ten seconds to show that it works") func link()
        throws
    {
        var life = try Life(.open)
        #expect(life.feed(.networkChanged, now: .zero) == "requestAck")
        #expect(life.machine.nextDue == .milliseconds(10_000))
        #expect(life.feed(.time(readAt: .milliseconds(9999)), now: .milliseconds(9999)) == "")
        // An answer may wait in the socket.
        #expect(life.feed(.time(readAt: nil), now: .milliseconds(10_000)) == "")
        #expect(
            life.feed(.time(readAt: .milliseconds(10_000)), now: .milliseconds(10_000))
                == "breakStream(timed-out)")
        _ = life.feed(.heard, now: .milliseconds(10_000))
        #expect(life.feed(.time(readAt: .milliseconds(10_000)), now: .milliseconds(10_000)) == "")
    }

    @Test("W4 logging out ends the stream only after the epoch was checked") func logOut() throws {
        var life = try Life(.open)
        #expect(life.feed(.logOut(Self.caller)) == "checkOwner")
        #expect(life.feed(.tookOver(.logOut(Self.caller), nil)) == "closeStream(loggedOut 0), logOut")
        #expect(life.feed(.loggedOut(Self.caller, nil)) == "release")
        var stale = try Life(.open)
        _ = stale.feed(.logOut(Self.caller))
        #expect(
            stale.feed(.tookOver(.logOut(Self.caller), Table.lost))
                == "closeStream(lost), abandon, send(stopped), finish(ownership-lost)")
        #expect(stale.machine.isFenced)
    }

    @Test("W4 a log-out that the store refuses tells its caller and keeps the account, to be asked again")
    func failedLogOut() throws {
        var life = try Life(.open)
        _ = life.feed(.tookOver(.logOut(Self.caller), nil))
        let full = HandlerError(.storageFailed, "full")
        #expect(life.feed(.loggedOut(Self.caller, full)) == "finish(error)")
        #expect(life.machine.isOwner)
        #expect(life.feed(.logOut(Self.caller)) == "checkOwner")
    }

    @Test("W4 a takeover that fails changes nothing: an account that was lost stays so, a wait goes on")
    func failedTakeOver() throws {
        let held = AccountError(.ownershipHeld, "held")
        var life = try Life(.fenced)
        _ = life.feed(.connect(Self.caller, retries: false))
        #expect(life.machine.isTakingOver && !life.machine.isFenced)
        #expect(life.feed(.tookOver(.connect(Self.caller), held)) == "finish(ownership-held)")
        #expect(life.machine.isFenced)
        life = try Life(.idle)
        _ = life.feed(.connect(Self.caller, retries: true))
        _ = life.feed(.tookOver(.reopen, held), now: .zero)
        _ = life.feed(.connect(Self.caller, retries: false))
        #expect(life.feed(.tookOver(.connect(Self.caller), held)) == "finish(ownership-held)")
        #expect(life.machine.nextDue == .milliseconds(125))
    }

    @Test("W4 an account that was lost is taken over when the program connects again") func unfenced() throws
    {
        var life = try Life(.fenced)
        #expect(life.feed(.connect(Self.caller, retries: false)) == "takeOver(connect)")
        #expect(life.feed(.tookOver(.connect(Self.caller), nil)) == "open(2)")
        #expect(!life.machine.isFenced)
    }
}
