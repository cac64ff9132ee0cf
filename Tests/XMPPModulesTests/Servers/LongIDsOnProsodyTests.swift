import AccountTestSupport
import TestServers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

extension RealServerTests {
    /// Requests and messages whose answer Prosody would not take.
    @Suite struct LongIDsOnProsodyTests {
        @Test(
            "X6 ids of a stranger that a server passes on, and would not take back, cost the stream nothing")
        func strangers() async throws {
            try await withModulesHome(.prosody) { home in
                // Megabytes of it, byte by byte, in a debug build.
                home.log.log.showsReceivedXML = false
                let account = try home.account { $0.modules = [ChatModule(receipts: .everyone)] }
                try await account.listen()
                let events = EventReader(account)
                try await account.connect()
                guard case .bound(let own)? = await events.until("bound") else { return #expect(Bool(false)) }
                let stranger = try StrangerClient(home.scene)
                // Prosody takes 256 KiB of a client, and writes an apostrophe with six bytes.
                let id = String(repeating: "'", count: 100_000)
                let wish = "<request xmlns='\(Namespaces.receipts)'/>"
                for number in 0..<4 {
                    #expect(
                        try stranger.offer(
                            """
                            <iq type='get' to='\(own)' id="\(id)"><ping xmlns='urn:xmpp:ping'/></iq>
                            <message to='\(own)' type='chat' id="\(number)\(id)"><body>long</body>\(wish)</message>
                            <message to='\(own)' type='chat' id='m\(number)'><body>hello</body>\(wish)</message>
                            """))
                }
                try await eventually { try account.store.notes("message").count == 8 }
                try await account.caughtUp()
                #expect(try home.sessions == [0, 1], "the stream ended")
                #expect(try account.store.number("SELECT count(*) FROM outbox") == 0)
            }
        }
    }
}
