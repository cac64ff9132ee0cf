// Never run: it was written and parsed on Linux, where there is no SwiftUI. MessengerCore is type-checked for iOS.
import BackgroundTasks
import MessengerCore
import SwiftUI
import UserNotifications

@main
struct MessengerApp: App {
    @UIApplicationDelegateAdaptor(AppDelegate.self) private var delegate
    @Environment(\.scenePhase) private var phase

    var body: some Scene {
        WindowGroup { Conversation(model: delegate.model) }
            .onChange(of: phase) { _, phase in
                switch phase {
                case .active: delegate.model.resume()
                case .background: delegate.suspendInBackground()
                default: break
                }
            }
    }
}

final class AppDelegate: NSObject, UIApplicationDelegate {
    /// As in the entitlements of both targets.
    static let group = "group.org.example.messenger"
    @MainActor let model = Model()

    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions options: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool {
        UNUserNotificationCenter.current().requestAuthorization(options: [.alert, .sound]) { _, _ in }
        application.registerForRemoteNotifications()
        return true
    }

    func application(
        _ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken token: Data
    ) {
        model.enablePush(token.map { String(format: "%02x", $0) }.joined())
    }

    /// The order matters: first everything is given back, then the system is told that it may suspend the app.
    @MainActor func suspendInBackground() {
        let application = UIApplication.shared
        var task = UIBackgroundTaskIdentifier.invalid
        let model = model
        func end() {
            if task != .invalid { application.endBackgroundTask(task) }
            task = .invalid
        }
        // Called when the time is nearly over: a lock that is still held then gets the app killed (0xdead10cc).
        task = application.beginBackgroundTask(withName: "suspend") { end() }
        Task { @MainActor in
            // Sends what waits, for as long as a person may come back at once.
            try? await Task.sleep(for: .seconds(5))
            if application.applicationState == .background { await model.suspend(within: .seconds(5)) }
            end()
        }
    }
}

@MainActor @Observable
final class Model {
    private(set) var lines: [Line] = []
    private(set) var trouble: String?
    private var messenger: Messenger?

    func resume() {
        Task {
            do {
                if let messenger {
                    try await messenger.resume()
                } else {
                    let messenger = try Messenger.opened(as: .app)
                    self.messenger = messenger
                    try await messenger.connect()
                }
                trouble = nil
                try reload()
                // It ends when the store is suspended.
                try? await messenger?.watchLines { [weak self] in await self?.reloadAfterChange() }
            } catch {
                trouble = "\(error)"
            }
        }
    }

    private func reloadAfterChange() { try? reload() }

    func suspend(within time: Duration) async { await messenger?.suspend(within: time) }

    func enablePush(_ token: String) {
        Task { try? await messenger?.enablePush(service: "push.example.org", node: token, secret: "…") }
    }

    func send(_ body: String, to address: String) {
        Task {
            do {
                try await messenger?.send(body, to: address)
                try reload()
            } catch {
                trouble = "\(error)"
            }
        }
    }

    func reload() throws { lines = try messenger?.lines() ?? [] }
}

struct Conversation: View {
    @Bindable var model: Model
    @State private var draft = ""
    @AppStorage("peer") private var peer = "juliet@example.org"

    var body: some View {
        VStack {
            if let trouble = model.trouble { Text(trouble).foregroundStyle(.red) }
            List(model.lines) { line in
                Text(line.body).frame(maxWidth: .infinity, alignment: line.isOwn ? .trailing : .leading)
            }
            HStack {
                TextField("Message", text: $draft)
                Button("Send") {
                    model.send(draft, to: peer)
                    draft = ""
                }
            }.padding()
        }
    }
}
