import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Telling the server whether somebody looks.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ClientStateTests {
    private func told(_ rig: AccountRig) -> [ForeignText] {
        rig.server.log.entries.compactMap { entry in
            guard entry.event == .received, entry.xml?.contains(Namespaces.csi) == true else { return nil }
            return entry.name
        }
    }

    @Test("X15 the server is notified when nobody looks any more, once, and again on every stream")
    func told() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.caughtUp()
            #expect(told(rig).isEmpty, "every stream begins as active")
            account.clientState = .inactive
            account.clientState = .inactive
            try await eventually { told(rig) == ["inactive"] }
            rig.server.dropConnections()
            await events.until("resumed")
            try await eventually { told(rig) == ["inactive", "inactive"] }
            account.clientState = .active
            try await eventually { told(rig) == ["inactive", "inactive", "active"] }
            try await account.caughtUp()
        }
    }

    @Test("X15 a server that does not know of it is sent nothing")
    func unknown() async throws {
        try await withRig({ $0.behavior.offersClientState = false }) { rig in
            let account = try await rig.connected()
            account.clientState = .inactive
            try await account.caughtUp()
            try await account.caughtUp()
            #expect(told(rig).isEmpty)
        }
    }
}
