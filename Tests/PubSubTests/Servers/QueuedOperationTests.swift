import Handlers
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension OperationsOnServers {
    /// Operations that are asked for while there is no connection.
    @Suite struct QueuedOperationTests {
        private let node = "urn:durable-handlers:test:queued"

        private func item(_ id: String) -> PubSubItem {
            PubSubItem(id: id, payload: Element("note", namespace: "urn:durable-handlers:test", text: id))
        }

        /// Asks for one operation of each kind, every one of which needs those before it.
        private func queue(_ pubsub: PubSubService, _ tag: String, other: JID) async throws {
            func done(_ name: String) throws -> Durable<PubSubCompletion> {
                try Notes.Done(tag: "\(tag) \(name)").durable
            }
            let abandoned = try Notes.Abandoned(tag: tag).durable
            try await pubsub.account.send(
                .pubsub(
                    .create(node, with: [.accessModel(.whitelist), .persistItems(true), .maximumItems(10)])),
                then: Notes.Created(tag: tag).durable, orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.configure(node, with: [.accessModel(.open)])), then: done("configured"),
                orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.configuration(of: node)),
                then: Notes.FormRead(tag: tag, field: "pubsub#access_model").durable, orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.setAffiliations([.init(other, .member)], with: node)), then: done("affiliated"),
                orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.affiliations(with: node)), then: Notes.Affiliations(tag: tag).durable,
                orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.subscribe(to: node)), then: Notes.Subscribed(tag: tag).durable, orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.ownSubscriptions(to: node)), then: Notes.Subscriptions(tag: tag).durable,
                orElse: abandoned)
            for id in ["1", "2"] {
                try await pubsub.account.send(
                    .pubsub(.publish(item(id), on: node)), then: Notes.Published(tag: tag).durable,
                    orElse: abandoned)
            }
            try await pubsub.account.send(
                .pubsub(.retract("1", from: node)), then: done("retracted"), orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.items(of: node)), then: Notes.Fetched(tag: tag).durable, orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.page(of: node, limit: 5)), then: Notes.Paged().durable, orElse: abandoned)
            try await pubsub.account.send(.pubsub(.purge(node)), then: done("purged"), orElse: abandoned)
            try await pubsub.account.send(.pubsub(.delete(node)), then: done("deleted"), orElse: abandoned)
            try await pubsub.account.send(
                .pubsub(.items(of: node)), then: Notes.Fetched(tag: tag).durable, orElse: abandoned)
        }

        private func expected(_ tag: String, _ jid: JID, other: JID) -> [String] {
            let prefix = "\(tag) main \(jid) \(node):"
            return [
                "\(tag): created \(node)", "\(tag) configured: done", "\(tag): pubsub#access_model is open",
                "\(tag) affiliated: done",
                "\(tag): " + ["\(other) member", "\(jid) owner"].sorted().joined(separator: ", "),
                "\(tag): \(jid) subscribed", "\(tag): \(jid) subscribed",
                "\(prefix) published 1", "\(prefix) published 2", "\(tag) retracted: done",
                "\(prefix) items 2=2", "page: 2", "\(tag) purged: done", "\(tag) deleted: done",
                "\(prefix) not found",
            ]
        }

        @Test(
            "P8 what is asked for offline is done once and in order, in a session that is resumed and in a new one",
            arguments: ServerKind.allCases)
        func queued(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let other = try JID("other@\(RealServers.domain)")
                // Before there was any session.
                let first = try home.account(.startTLS)
                try await queue(first.pubsub, "first", other: other)
                #expect(try home.notes == [])
                try await first.connect()
                try await eventually("the first answers") { try home.notes.count == 15 }
                // While the session waits to be resumed, by another process.
                try await first.suspend()
                let second = try home.account(.startTLS)
                try await queue(second.pubsub, "resumed", other: other)
                try await second.connect()
                #expect(try home.sessions == [1, 1])
                try await eventually("the answers after resuming") { try home.notes.count == 30 }
                // While the session is lost without anybody knowing yet.
                try await second.suspend()
                try home.store.step { step in
                    try step.execute("UPDATE session SET resumption_id = 'unknown'")
                }
                let third = try home.account(.startTLS)
                try await queue(third.pubsub, "bound", other: other)
                try await third.connect()
                #expect(try home.sessions == [1, 2])
                try await eventually("the answers in the new session") { try home.notes.count == 45 }
                try await third.caughtUp()
                #expect(
                    try home.notes
                        == ["first", "resumed", "bound"].flatMap { expected($0, home.jid, other: other) })
            }
        }

        @Test(
            "P8 a server without PubSub ends each operation with an outcome",
            arguments: ServerKind.allCases)
        func lacking(_ kind: ServerKind) async throws {
            // Without it the users have no nodes of their own (PEP).
            let server = try RealServers.current.special(
                kind, prosody: { $0.removedModules = ["pep", "bookmarks", "vcard4", "vcard_legacy"] },
                ejabberd: { $0.removedModules = ["mod_pubsub"] })
            defer { server.close() }
            try await withHome(kind, server: server) { home in
                let account = try home.account(.startTLS)
                try await queue(account.pubsub, "t", other: try JID("other@\(RealServers.domain)"))
                try await account.connect()
                try await eventually("the answers") { try home.notes.count == 15 }
                let outcomes = Set(
                    try home.notes.map { $0.split(separator: ": ").last.map(String.init) ?? "" })
                #expect(outcomes == ["error service-unavailable"])
                // The same for a waiting caller, and with a service that does not exist.
                let nowhere = try JID("nowhere.\(RealServers.domain)")
                for service in [nil, nowhere] {
                    let error = await #expect(throws: PubSubError.self) {
                        try await account.request(.pubsub(.items(of: node), at: service))
                    }
                    #expect(error?.isNotFound == false)
                }
            }
        }
    }
}
