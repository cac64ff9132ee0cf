import Handlers
@testable import PubSub
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// What waits in users' databases for the answer to each operation: a newer program must read it.
@Suite(.ownThread) struct StoredQuestionTests {
    private func stored<Context>(
        _ operation: PubSubOperation<Context>, timeout: Duration? = nil
    ) throws -> String {
        let then = Durable<Context>(name: "t.t", version: 1, arguments: Array("{}".utf8))
        let payload = try operation.payload(JID("a@b"))
        let remedy = try operation.remedy(publishing: payload, timeout: timeout)
        let answered = PubSubAnswered(
            service: nil, node: operation.node?.string, question: operation.question(remedy, then))
        let durable = try answered.durable
        #expect(durable.name == "pubsub.answered" && durable.version == 1)
        return durable.description
    }

    /// The same, with what is the same in all of them left out.
    private func form<Context>(_ operation: PubSubOperation<Context>) throws -> String {
        let text = try stored(operation)
        let then = #""then":{"$handler":"t.t","arguments":{},"version":1}"#
        #expect(text.hasPrefix("pubsub.answered@1") && text.contains(then))
        return String(text.dropFirst("pubsub.answered@1".count)).replacing(then, with: "THEN")
    }

    @Test("H11 what is stored until an answer comes keeps its form, or the version is raised")
    func forms() throws {
        #expect(try form(.items(of: "n")) == #"{"node":"n","question":{"items":{THEN}}}"#)
        #expect(
            try form(.page(of: "n", limit: 5))
                == #"{"node":"n","question":{"page":{"request":{"isBackward":false,"limit":5},THEN}}}"#)
        #expect(
            try form(.page(of: "n", at: .before("i"), limit: 5))
                == #"{"node":"n","question":{"page":{"request":{"isBackward":true,"limit":5,"mark":"i"},THEN}}}"#
        )
        #expect(
            try form(.publish(PubSubItem(id: "i"), on: "n"))
                == #"{"node":"n","question":{"publish":{"itemID":"i",THEN}}}"#)
        #expect(try form(.create()) == #"{"question":{"create":{THEN}}}"#)
        #expect(
            try form(.configuration(of: "n"))
                == #"{"node":"n","question":{"form":{"form":"configuration",THEN}}}"#)
        #expect(
            try form(.defaultConfiguration)
                == #"{"question":{"form":{"form":"defaultConfiguration",THEN}}}"#)
        #expect(
            try form(.subscriptionOptions(of: "n"))
                == #"{"node":"n","question":{"form":{"form":"options",THEN}}}"#)
        #expect(
            try form(.defaultSubscriptionOptions(of: "n"))
                == #"{"node":"n","question":{"form":{"form":"defaultOptions",THEN}}}"#)
        #expect(
            try form(.subscribe(to: "n", as: JID("a@b/c")))
                == #"{"node":"n","question":{"subscribe":{"jid":"a@b/c",THEN}}}"#)
        #expect(
            try form(.ownSubscriptions()) == #"{"question":{"subscriptions":{"list":"own",THEN}}}"#)
        #expect(
            try form(.affiliations(with: "n"))
                == #"{"node":"n","question":{"affiliations":{"list":"node",THEN}}}"#)
        #expect(try form(.purge("n")) == #"{"node":"n","question":{"change":{THEN}}}"#)
    }

    @Test("H11 what is stored of a publication that may configure its node keeps its form")
    func remedies() throws {
        let operation = PubSubOperation.publish(
            nil, on: "n", requiring: [.accessModel(.open)], configuring: true)
        let text = try stored(operation, timeout: .milliseconds(7))
        let configure = try PubSubRequest.configure("n", with: [.accessModel(.open)]).serialized()
        let publish = try operation.payload(JID("a@b")).serialized()
        let remedy = #"{"configure":"\#(configure)","publish":"\#(publish)","timeout":7}"#
        let then = #""then":{"$handler":"t.t","arguments":{},"version":1}"#
        #expect(
            text
                == #"pubsub.answered@1{"node":"n","question":{"publish":{"remedy":\#(remedy),\#(then)}}}"#)
    }
}
