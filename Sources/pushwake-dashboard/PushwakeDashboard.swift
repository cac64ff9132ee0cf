// pushwake-dashboard: serves the page of a store; pushwake runs it with the same words.
//
// It is a separate program, because it links libmicrohttpd, which links a TLS library of its own, and libpq.

import DashboardServer
import Glibc
import Handlers
import HandlersDashboard
import HandlersPostgres
import PushwakeCommands
import XMPPCore

@main
struct PushwakeDashboard {
    static func main() async { await Pushwake.main(serve) }

    private static let opener = StoreOpener(
        reader: {
            StoreAddress($0).isPostgres
                ? try StoreReader(postgres: $0, schemas: $1) : StoreReader(path: $0, schemas: $1)
        },
        // A standby that the server has must confirm a change. The program decides whether it needs one.
        store: {
            StoreAddress($0).isPostgres
                ? try HandlerStore(postgres: $0, registry: $1, durability: .onPrimary)
                : try HandlerStore(path: $0, registry: $1)
        })

    /// - Returns: The exit status.
    private static func serve(_ words: [String]) throws -> Int32 {
        let options = try DashboardOptions(Array(words.dropFirst()), opener)
        // Fails here and not in a browser when there is no such store.
        _ = try options.reader().read { $0.now }
        let sessions = DashboardSessions()
        let socket = try ListeningSocket(options.port)
        let access: DashboardAccess =
            options.isForOperators ? .operator(options.author) : .viewer(name: options.author)
        let writer: @Sendable () throws -> HandlerStore = { try options.writer() }
        let dashboard = Dashboard(
            reader: { try options.reader() }, writer: options.isForOperators ? writer : nil,
            hosts: ["127.0.0.1:\(socket.port)", "localhost:\(socket.port)"],
            access: { sessions.admits($0.header("Authorization")) ? access : .none }, sessions: sessions,
            why: { reader, snapshot in try DashboardOptions.why(reader, snapshot) },
            releasing: { id, step in try DashboardOptions.release(id, step) },
            processState: { DashboardOptions.processState($0) })
        let server = try PageServer(socket, dashboard)
        defer { server.close() }
        Terminal.say(
            "\(options.isForOperators ? "changes are allowed" : "read-only; --operator allows changes")")
        repeat {
            Terminal.say("http://127.0.0.1:\(socket.port)/#code=\(sessions.makeCode())")
            Terminal.say("the code works once, for a minute; Enter makes a new one, Ctrl-C ends")
        } while readLine() != nil
        // Without a terminal nobody presses Enter: it serves until a signal ends it.
        while true { pause() }
    }
}
