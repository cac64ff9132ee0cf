import HandlersTestKit
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPTransport

/// When a broken stream is opened again, as rules.
@Suite(.ownThread) struct ReconnectionTests {
    private let broken = AccountError(.connectionFailed, "the connection broke")
    private let expired = TransportError(.certificateExpired, "the certificate has expired")

    private func wait(_ decision: Reconnection.Decision) -> Int64? {
        if case .retry(let wait) = decision { wait.milliseconds } else { nil }
    }

    private func reason(_ decision: Reconnection.Decision) -> ErrorCode<AccountError>? {
        if case .stop(let error) = decision { error.code } else { nil }
    }

    @Test(
        "X8 each wait is twice as long as the one before, half of it at random, and none is longer than a minute"
    )
    func exponential() {
        var generator = SeededGenerator(seed: 1)
        var waits: [[Int64]] = Array(repeating: [], count: 14)
        for _ in 0..<200 {
            var reconnection = Reconnection()
            for round in 0..<14 {
                waits[round].append(wait(reconnection.failed(broken, using: &generator)) ?? -1)
            }
        }
        for (round, found) in waits.enumerated() {
            let ceiling = min(Int64(60_000), Int64(250) << Int64(round))
            #expect(found.allSatisfy { (ceiling / 2...ceiling).contains($0) }, "round \(round)")
            #expect(Set(found).count > 20, "round \(round) is not at random")
        }
    }

    @Test(
        "S16 a session is given up when two resumed streams in a row ended before the server answered anything"
    )
    func unheard() {
        var reconnection = Reconnection()
        var isGivenUp = [reconnection.endedUnheard()]
        reconnection.heard()
        isGivenUp.append(reconnection.endedUnheard())
        // A stream that held for a while is no answer.
        reconnection.reset()
        isGivenUp.append(reconnection.endedUnheard())
        // The next session starts without a reproach.
        isGivenUp.append(reconnection.endedUnheard())
        #expect(isGivenUp == [false, false, true, false])
    }

    /// The conditions of RFC 6120 section 4.9.3, in its order.
    private static let conditions: [StreamError.Condition] = [
        .badFormat, .badNamespacePrefix, .conflict, .init(rawValue: "connection-timeout"), .hostGone,
        .hostUnknown, .init(rawValue: "improper-addressing"), .init(rawValue: "internal-server-error"),
        .invalidFrom, .invalidNamespace, .invalidXML, .notAuthorized, .notWellFormed, .policyViolation,
        .init(rawValue: "remote-connection-failed"), .reset, .resourceConstraint, .restrictedXML,
        .seeOtherHost, .systemShutdown, .undefinedCondition, .unsupportedEncoding, .unsupportedFeature,
        .unsupportedStanzaType, .init(rawValue: "unsupported-version"),
    ]

    @Test("S16 an unfinished element shows as an error of the XML, and no other error is taken for one")
    func unfinished() {
        let meant = Self.conditions.filter { condition in
            let cause = StreamError(condition)
            return Reconnection.isAboutUnfinishedElement(AccountError(.streamError, "ended", cause: cause))
        }
        #expect(
            Set(meant) == [
                .notWellFormed, .invalidXML, .badFormat, .badNamespacePrefix, .invalidNamespace,
                .unsupportedStanzaType,
            ])
        #expect(!Reconnection.isAboutUnfinishedElement(broken))
    }

    @Test("X8 a session that held, or a hint, lets the waits start again")
    func reset() {
        var generator = SeededGenerator(seed: 2)
        var reconnection = Reconnection()
        for _ in 0..<10 { _ = reconnection.failed(broken, using: &generator) }
        #expect(wait(reconnection.failed(broken, using: &generator)) ?? 0 > 20_000)
        reconnection.reset()
        #expect(wait(reconnection.failed(broken, using: &generator)) ?? .max <= 250)
    }

    @Test("X8 what only a person can change ends the trying at once")
    func finalReasons() {
        let conflict = AccountError(.streamError, "replaced", cause: StreamError(.conflict))
        let cases: [(any Error, ErrorCode<AccountError>)] = [
            (conflict, .conflict),
            (AccountError(.notAuthorized, "refused"), .notAuthorized),
            (SASLError(.forbiddenCredentials, "a zero byte"), .notAuthorized),
            (SASLError(.notAuthorized, "invalid-proof"), .notAuthorized),
            (TransportError(.invalidCredentialFile, "no such file"), .invalidConfiguration),
            (TransportError(.serviceNotOffered, "none"), .invalidConfiguration),
            (AccountError(.ownershipHeld, "held"), .ownershipHeld),
        ]
        for (error, code) in cases {
            var generator = SeededGenerator(seed: 3)
            var reconnection = Reconnection()
            #expect(reason(reconnection.failed(error, using: &generator)) == code, "\(error)")
        }
    }

    @Test("X8 a conflict right after a resumption is tried once more, any other is not")
    func freshConflict() {
        let conflict = AccountError(.streamError, "replaced", cause: StreamError(.conflict))
        var generator = SeededGenerator(seed: 5)
        var reconnection = Reconnection()
        #expect(wait(reconnection.failed(conflict, isFresh: true, using: &generator)) != nil)
        #expect(reason(reconnection.failed(conflict, isFresh: true, using: &generator)) == .conflict)
        reconnection.reset()
        #expect(wait(reconnection.failed(conflict, isFresh: true, using: &generator)) != nil)
        #expect(
            reason(
                reconnection.failed(
                    AccountError(.notAuthorized, "refused"), isFresh: true, using: &generator))
                == .notAuthorized)
    }

    @Test("X8 a server that is not believed three times in a row ends the trying, with the reason inside")
    func refusals() throws {
        let errors: [any Error] = [
            expired, SASLError(.downgradeSuspected, "weaker"), SASLError(.serverNotAuthenticated, "impostor"),
            TransportError(.certificateChanged, "other key"),
        ]
        for error in errors {
            var generator = SeededGenerator(seed: 4)
            var reconnection = Reconnection()
            #expect(wait(reconnection.failed(error, using: &generator)) != nil)
            // A network that is away in between changes nothing.
            #expect(wait(reconnection.failed(TransportError(.refused, "no"), using: &generator)) != nil)
            #expect(wait(reconnection.failed(error, using: &generator)) != nil)
            guard case .stop(let stopped) = reconnection.failed(error, using: &generator) else {
                Issue.record("it goes on after \(error)")
                continue
            }
            #expect(stopped.code == .untrustedServer)
            #expect(stopped.cause != nil)
        }
    }

    @Test("X8 a server that was believed in between starts the count again")
    func trustedInBetween() {
        var generator = SeededGenerator(seed: 5)
        var reconnection = Reconnection()
        for _ in 0..<2 { _ = reconnection.failed(expired, using: &generator) }
        reconnection.trusted()
        for _ in 0..<2 { #expect(wait(reconnection.failed(expired, using: &generator)) != nil) }
        #expect(reason(reconnection.failed(expired, using: &generator)) == .untrustedServer)
    }

    @Test("X8 a network that is away is tried for ever, and so is a server that has reasons of its own")
    func forEver() {
        var generator = SeededGenerator(seed: 6)
        var reconnection = Reconnection()
        for _ in 0..<100 {
            #expect(wait(reconnection.failed(SASLError(.refused, "no"), using: &generator)) != nil)
        }
        for code in [
            ErrorCode<TransportError>.refused, .unreachable, .timedOut, .nameNotFound, .connectionReset,
        ] {
            for _ in 0..<100 {
                #expect(wait(reconnection.failed(TransportError(code, "no"), using: &generator)) != nil)
            }
        }
    }
}
