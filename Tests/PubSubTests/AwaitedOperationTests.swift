import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// Operations that are awaited: the same table, the same reading of the answer.
@Suite(.ownThread) struct AwaitedOperationTests {
    /// Awaits an operation, answers each of its requests and tells how it ended.
    private func outcome<Context>(
        of operation: PubSubOperation<Context>, _ offline: PubSubAccount,
        answers: (PubSubAccount, String) throws -> Void...
    ) async throws -> Result<Context.Value, any Error> {
        let before = try offline.outbox.count
        let pubsub = offline.pubsub
        let task = Task { try await pubsub.account.request(.pubsub(operation)) }
        for (index, answer) in answers.enumerated() {
            try await eventually("a request") { try offline.outbox.count > before + index }
            try answer(offline, try #require(try offline.newestID))
        }
        return await task.result
    }

    private func answer(_ type: String, _ xml: String) -> (PubSubAccount, String) throws -> Void {
        { offline, id in try offline.receive("<iq type='\(type)' id='\(id)'>\(xml)</iq>") }
    }

    private func error(_ condition: String, _ own: String? = nil) -> String {
        let own = own.map { "<x xmlns='urn:x'/><\($0) xmlns='http://jabber.org/protocol/pubsub#errors'/>" }
        return
            "<error type='cancel'><\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\(own ?? "")</error>"
    }

    private let items =
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='nick'><item id='i'/></items></pubsub>"

    @Test("P7 an awaited operation brings its value, or throws so that all ways to fail can be distinguished")
    func outcomes() async throws {
        let offline = try PubSubAccount()
        let fetch = PubSubOperation.items(of: "nick")
        #expect(
            try await outcome(of: fetch, offline, answers: answer("result", items)).get()
                == [PubSubItem(id: "i")])
        func failure(
            _ answers: (PubSubAccount, String) throws -> Void
        ) async throws -> (any Error)? {
            let result = try await withoutActuallyEscaping(answers) { answers in
                try await outcome(of: fetch, offline, answers: answers)
            }
            if case .failure(let error) = result { return error }
            return nil
        }
        let notFound = try await failure(answer("error", error("item-not-found"))) as? PubSubError
        #expect(notFound?.isNotFound == true)
        let refused = try await failure(answer("error", error("forbidden", "closed-node"))) as? PubSubError
        #expect(refused?.isNotFound == false)
        #expect(refused?.condition == PubSubError.Condition(rawValue: "closed-node"))
        let nonsense = try await failure(answer("result", "")) as? PubSubError
        #expect(nonsense?.stanzaError.condition == .undefinedCondition)
        let late = try await failure { try $0.expire($1) } as? AccountError
        #expect(late?.code == .timedOut)
        let lost = try await failure { try $0.lose($1) } as? AccountError
        #expect(lost?.code == .sessionLost)
        #expect(try offline.rows == [])
        await offline.close()
    }

    @Test("P1 P2 P3 each kind of operation brings a value of its own")
    func values() async throws {
        let offline = try PubSubAccount()
        let created = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='n1'/></pubsub>"
        #expect(try await outcome(of: .create(), offline, answers: answer("result", created)).get() == "n1")
        try await outcome(of: .purge("nick"), offline, answers: answer("result", "")).get()
        #expect(
            try await outcome(
                of: .publish(PubSubItem(id: "i"), on: "nick"), offline, answers: answer("result", "")
            ).get() == "i")
        let subscription = try await outcome(
            of: .subscribe(to: "nick"), offline, answers: answer("result", "")
        ).get()
        #expect(subscription == .init(try JID(PubSubAccount.jid), .subscribed, node: "nick"))
        await #expect(throws: AccountError.self) { try await offline.account.request(.pubsub(.purge(""))) }
        await offline.close()
    }

    @Test("P6 an awaited publication configures the node and publishes again, once")
    func configuring() async throws {
        let offline = try PubSubAccount()
        let publish = PubSubOperation.publish(
            PubSubItem(id: "i"), on: "nick", requiring: [.accessModel(.open)], configuring: true)
        let unmet = answer("error", error("conflict", "precondition-not-met"))
        let done = answer("result", "")
        #expect(try await outcome(of: publish, offline, answers: unmet, done, done).get() == "i")
        let names = try offline.outbox.map {
            try Element(parsing: $0, defaultNamespace: Namespaces.client).firstElement?.firstElement?.name
        }
        #expect(names == ["publish", "configure", "publish"])
        func condition(
            _ answers: (PubSubAccount, String) throws -> Void...
        ) async throws -> ForeignText? {
            let result: Result<ForeignText?, any Error>
            switch answers.count {
            case 2: result = try await outcome(of: publish, offline, answers: answers[0], answers[1])
            default:
                result = try await outcome(of: publish, offline, answers: answers[0], answers[1], answers[2])
            }
            guard case .failure(let error as PubSubError) = result else { return nil }
            return error.condition?.rawValue ?? error.stanzaError.condition.rawValue
        }
        #expect(try await condition(unmet, done, unmet) == "precondition-not-met")
        #expect(try await condition(unmet, answer("error", error("forbidden"))) == "forbidden")
        #expect(try offline.outbox.count == 8)
        await offline.close()
    }

    @Test("P7 an awaited operation whose task is canceled is canceled with it")
    func cancelled() async throws {
        let offline = try PubSubAccount()
        let pubsub = offline.pubsub
        let task = Task { try await pubsub.account.request(.pubsub(.items(of: "nick"))) }
        try await eventually("the request") { try !offline.outbox.isEmpty }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        try await eventually("its end") { try offline.outbox.isEmpty }
        #expect(try offline.rows == [])
        await offline.close()
    }
}
