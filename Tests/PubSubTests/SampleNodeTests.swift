import Handlers
import TestSupport
import TestThreads
import Testing

/// The programs of Snippets/ with nodes, as readers start them.
@Suite(.ownThread, .realServers, .serialized) struct SampleNodeTests {
    private func store(_ home: RealHome, _ name: String) throws -> HandlerStore {
        try HandlerStore(path: home.folder.path + "/" + name, registry: HandlerRegistry([]), schemas: [])
    }

    @Test(
        "P5 one sample publishes a value and stores its event; the other one reads the node"
    )
    func values() async throws {
        try await withHome(.prosody) { home in
            try await eventually("the event") {
                #expect(try home.run(sample: "TypedNode", prefix: "SHELF") == "")
                return try store(home, "shelf.db").texts("SELECT title FROM shelf") == [
                    "The Tragedie of Romeo"
                ]
            }
            #expect(try store(home, "shelf.db").texts("SELECT text FROM complaint") == [])

            func read(_ node: String) throws -> String {
                try home.run(
                    sample: "ReadFeed", prefix: "FEED",
                    ["FEED_SERVICE": home.jid.description, "FEED_NODE": node])
            }
            #expect(try read("urn:example:reading") == "")
            #expect(try store(home, "feed.db").texts("SELECT id FROM entry") == ["current"])
            #expect(
                try read("urn:example:unknown")
                    == "the node is gone, or the item at which the page began\n")
        }
    }
}
