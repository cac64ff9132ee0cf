public import Handlers

/// A page for operators over a store, as a function from requests of HTTP to responses. A program mounts it in its own server.
///
/// ```swift
/// let sessions = DashboardSessions()
/// let dashboard = Dashboard(
///     reader: { StoreReader(path: "app.db") }, hosts: ["127.0.0.1:8377"],
///     access: { sessions.admits($0.header("Authorization")) ? .viewer(name: nil) : .none }, sessions: sessions)
/// let response = dashboard.respond(to: DashboardRequest("GET", "/api/v1/summary", headers: headers))
/// ```
/// ```text
///  request ─▶ method, Host, Origin ─▶ file of the page
///                                  ─▶ access ─▶ act: role ─▶ step with its audit
///                                            ─▶ answer from one snapshot, with secrets masked
/// ```
public final class Dashboard: Sendable {
    /// The maximum size of the body of a request in bytes.
    public static let longestBody = 65_536
    /// The maximum size of the path and query of a request in bytes.
    static let longestTarget = 8192

    let reader: @Sendable () throws -> StoreReader
    let writer: (@Sendable () throws -> HandlerStore)?
    private let hosts: Set<String>
    private let access: @Sendable (DashboardRequest) -> DashboardAccess
    private let sessions: DashboardSessions?
    private let root: String
    /// The reason why a handler has not ended, as a sentence without its subject.
    let why: WhyReader
    /// Removes what modules keep for a handler that is about to end by hand.
    let releasing: @Sendable (AnyHandlerID, borrowing Step) throws -> Void
    /// What the machine says of a process that has a file open.
    let processState: @Sendable (Int32) -> String
    let counter = RareCount()

    /// Makes what says why handlers of one snapshot have not ended.
    package typealias WhyReader =
        @Sendable (StoreReader, borrowing Snapshot) throws -> (HandlerStatus, borrowing Snapshot) throws ->
        String

    /// Makes a page.
    ///
    /// - Parameters:
    ///   - reader: Makes a reader of the store, one for each request.
    ///   - writer: The store in which changes are made: the program's own, or one that is opened for each change. Nil for a page that
    ///     only shows.
    ///   - hosts: The values of the header `Host` by which the page may be reached, such as `127.0.0.1:8377`. Any other name is
    ///     refused, also one that someone else's name server points to this machine.
    ///   - root: The prefix of the page in the program's server, such as `/handlers`; empty for none.
    ///   - access: Says what a caller may do. It is asked for each request but those for the files of the page, which hold no data.
    ///   - sessions: Opens sessions for codes, at `/api/v1/session`; nil for a program with its own way to sign in.
    public convenience init(
        reader: @escaping @Sendable () throws -> StoreReader,
        writer: (@Sendable () throws -> HandlerStore)? = nil, hosts: Set<String>, root: String = "",
        access: @escaping @Sendable (DashboardRequest) -> DashboardAccess, sessions: DashboardSessions? = nil
    ) {
        self.init(
            reader: reader, writer: writer, hosts: hosts, root: root, access: access, sessions: sessions,
            why: { _, _ in { status, _ in status.shortReason } }, releasing: { _, _ in },
            processState: { _ in "running" })
    }

    /// - Parameters:
    ///   - why: The sentence of a program that knows more tables than `Handlers` does.
    ///   - releasing: Removes what modules keep for a handler that is about to end by hand.
    ///   - processState: The state of a process of this machine, such as `running` or `stopped`.
    package init(
        reader: @escaping @Sendable () throws -> StoreReader,
        writer: (@Sendable () throws -> HandlerStore)?, hosts: Set<String>, root: String = "",
        access: @escaping @Sendable (DashboardRequest) -> DashboardAccess, sessions: DashboardSessions?,
        why: @escaping WhyReader,
        releasing: @escaping @Sendable (AnyHandlerID, borrowing Step) throws -> Void,
        processState: @escaping @Sendable (Int32) -> String
    ) {
        (self.reader, self.writer, self.hosts, self.root) = (reader, writer, hosts, root)
        (self.access, self.sessions, self.why, self.releasing) = (access, sessions, why, releasing)
        self.processState = processState
    }

    /// Answers a request. It reads the store, so call it on a thread that may wait.
    ///
    /// - Parameter request: The request.
    /// - Returns: The response; also an error is one.
    public func respond(to request: DashboardRequest) -> DashboardResponse {
        do {
            try checkMethod(request)
            try checkHost(request)
            try checkOrigin(request)
            guard request.path.hasPrefix("/api/") else { return try StaticFile.response(to: request, root) }
            guard let parts = request.parts, parts.starts(with: ["api", "v1"]) else {
                throw DashboardFailure.notFound
            }
            let rest = Array(parts.dropFirst(2))
            if rest == ["session"] { return try openSession(request) }
            let access = access(request)
            if case .none = access {
                throw DashboardFailure(
                    401, "no-session", "This session has ended.", hint: "Open the page with a new code.")
            }
            if request.method == "POST" { return try act(request, rest, access) }
            return try answer(request, rest, access)
        } catch let failure as DashboardFailure {
            return .failure(failure)
        } catch {
            return .failure(DashboardFailure(storeError: error))
        }
    }

    // MARK: Guards

    private func checkMethod(_ request: DashboardRequest) throws(DashboardFailure) {
        switch request.method {
        case "GET", "HEAD": break
        case "POST":
            guard request.header("Content-Type")?.lowercased().hasPrefix("application/json") == true else {
                throw DashboardFailure(415, "no-json", "A change is sent as application/json.")
            }
            guard request.body.count <= Self.longestBody else {
                throw DashboardFailure(413, "too-large", "A change has at most \(Self.longestBody) bytes.")
            }
        // Nobody else may ask: an answer here would be the first half of a permission for other origins.
        case "OPTIONS": throw DashboardFailure(403, "foreign-origin", "Only this page may ask.")
        default: throw DashboardFailure(405, "wrong-method", "Only GET, HEAD and POST are served.")
        }
        guard request.path.utf8.count + request.query.utf8.count <= Self.longestTarget else {
            throw DashboardFailure(414, "too-long", "The address is too long.")
        }
    }

    /// A name that leads here by a foreign name server would make a foreign page one of this origin.
    private func checkHost(_ request: DashboardRequest) throws(DashboardFailure) {
        guard let host = request.header("Host")?.lowercased(), hosts.contains(host) else {
            throw DashboardFailure(
                421, "wrong-host", "This page is not served under that name.",
                hint: "Use the address that the command printed, or name the host with --host.")
        }
    }

    private func checkOrigin(_ request: DashboardRequest) throws(DashboardFailure) {
        let foreign = DashboardFailure(403, "foreign-origin", "Only this page may ask.")
        if let origin = request.header("Origin") {
            let name = origin.lowercased().split(separator: "://", maxSplits: 1).last.map(String.init)
            guard name == request.header("Host")?.lowercased(), origin.contains("://") else { throw foreign }
        }
        switch request.header("Sec-Fetch-Site") {
        case nil, "same-origin": break
        case "none" where request.method != "POST": break
        // A link on another page opens this one in a tab, which holds no data before its script has asked.
        case .some
        where request.method == "GET" && request.header("Sec-Fetch-Mode") == "navigate"
            && request.header("Sec-Fetch-Dest") == "document" && !request.path.hasPrefix("/api/"):
            break
        default: throw foreign
        }
    }

    private func openSession(_ request: DashboardRequest) throws -> DashboardResponse {
        guard request.method == "POST", let sessions else { throw DashboardFailure.notFound }
        guard let code = AnswerJSON.value(request.body)?["code"]?.string else {
            throw DashboardFailure(400, "no-code", "A code is needed.")
        }
        return DashboardResponse(
            200, AnswerJSON.type, AnswerJSON.bytes(["token": .string(try sessions.token(for: code))]))
    }
}

extension DashboardFailure {
    /// An error of the store, or of a change in it.
    init(storeError error: any Error) {
        guard let error = error as? HandlerError else {
            self.init(500, "failed", "\(error)")
            return
        }
        if error.isStorageFailure || [.databaseForeign, .databaseNewer, .databaseOlder].contains(error.code) {
            self.init(503, error.code.rawValue, "The store cannot be read now: \(error.message).")
        } else {
            self.init(409, error.code.rawValue, "\(error.message).", hint: "Nothing was changed.")
        }
    }
}

extension HandlerStatus {
    /// What the row alone says about why the handler has not ended.
    var shortReason: String {
        let because = reason.map { ": \($0)" } ?? ""
        return switch state {
        case .quarantined: "waits for a person, who requeues or discards it\(because)"
        case .parked: "waits for a program that knows it\(because)"
        case .running: "is run by a process"
        case .pending where attempts > 0: "waits for attempt \(attempts + 1)\(because)"
        case .pending where dueAt != nil: "waits for its time"
        case .pending: isStanding ? "waits for each of its calls" : "waits for its call"
        }
    }
}
