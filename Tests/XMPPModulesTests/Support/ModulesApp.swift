import AccountTestSupport
import Handlers
import XMPPAccount
import XMPPModules
import XMPPTestKit

/// What the tests of modules add to ``TestApp``.
enum ModulesApp {
    static let handlers: [any DurableHandler.Type] =
        [PageSeen.self, DeliverySeen.self, RoomNoted.self] + ContactsApp.handlers

    static var registry: HandlerRegistry { HandlerRegistry(TestApp.handlers + handlers) }

    /// Notes what a page of an archive was.
    struct PageSeen: Handler {
        static let id = "test.page-seen"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<ArchivePage>) throws {
            guard case .page(let isLast, let page) = call.context.outcome else { return }
            try TestApp.note(
                "page", call.context.archive.description, "last \(page.last ?? "-") isLast \(isLast)",
                in: call.step)
        }
    }

    /// Notes how a delivery ended.
    struct DeliverySeen: Handler {
        static let id = "test.delivery-seen"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<DeliveryEnded>) throws {
            let end =
                switch call.context.delivery.failure {
                case nil: "delivered"
                case .refused(let condition): "refused \(condition.rawValue)"
                case .timedOut: "timed out"
                case .loggedOut: "logged out"
                }
            try TestApp.note("delivery", name, end, in: call.step)
        }
    }
}

/// Runs a test with a rig whose stores have the tables of this library's modules.
func withModulesRig(
    clock: VirtualClock? = nil, reconnects: Bool = true,
    _ change: (inout ScriptedServer.Configuration) -> Void = { _ in },
    _ body: (AccountRig) async throws -> Void
) async throws {
    try await withRig(
        schemas: Account.schemas, handlers: ModulesApp.handlers, clock: clock, reconnects: reconnects, change,
        body)
}
