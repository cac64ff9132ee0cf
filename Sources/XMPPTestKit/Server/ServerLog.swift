import Platform
package import XMPPCore

/// The log of a ``ScriptedServer``, an independent witness for tests.
///
/// ```swift
/// let log = server.log
/// #expect(log.entries.repeatedStanzas.isEmpty)
/// #expect(log.wait(for: .seconds(10)) { $0.event == .resumed } != nil)
/// ```
///
/// An element is in the log before its effects leave the server: who has got an answer finds the request here.
public final class ServerLog: Sendable {
    struct State {
        var rows: [ServerLogRow] = []
        var addresses: [Int32: JID] = [:]
        /// The file of JSON lines; nil for none.
        var file: OpenFile?
        var isFileBroken = false
    }

    private let state: Monitor<State>

    /// - Parameter path: A file that gets one JSON object a line, in addition; it is emptied first.
    init(path: String?) throws(ScriptedServerError) {
        var state = State()
        if let path {
            do throws(Errno) {
                state.file = try OpenFile(emptying: path)
            } catch {
                throw ScriptedServerError(
                    .logFile, "The log file \(path) cannot be written (\(error)); name another.")
            }
        }
        self.state = Monitor(state)
    }

    // MARK: Reading

    /// The number of entries.
    package var count: Int { state.withLock { $0.rows.count } }

    /// All entries, oldest first.
    public var entries: [ServerLogEntry] { entries(from: 0) }

    /// Returns the entries from an index on, oldest first.
    ///
    /// - Parameter index: The first entry, from 0; one beyond the end gives none.
    /// - Returns: The entries.
    package func entries(from index: Int) -> [ServerLogEntry] {
        // The rows are taken under the lock, which copies nothing, and spelled out outside of it.
        let (rows, addresses) = state.withLock { ($0.rows, $0.addresses) }
        return rows[min(max(index, 0), rows.count)...].map { $0.entry(addresses) }
    }

    /// Whether the file of JSON lines could not be written to the end, for instance because the disk is full.
    package var isFileBroken: Bool { state.withLock { $0.isFileBroken } }

    /// Waits for an entry.
    ///
    /// - Parameters:
    ///   - limit: How long to wait.
    ///   - index: The first entry to look at.
    ///   - matches: Called for each entry once, with the log locked: it must not use the log.
    /// - Returns: The first entry that matches; nil when none came in time.
    public func wait(
        for limit: Duration, from index: Int = 0, until matches: (ServerLogEntry) -> Bool
    ) -> ServerLogEntry? {
        var next = max(0, index)
        return state.wait(limit: limit) { state in
            while next < state.rows.count {
                defer { next += 1 }
                let entry = state.rows[next].entry(state.addresses)
                if matches(entry) { return entry }
            }
            return nil
        }
    }

    // MARK: Writing

    /// Adds what one turn of the server brought.
    func append(_ rows: [ServerLogRow], addresses: [(session: Int32, jid: JID)]) {
        guard !rows.isEmpty else { return }
        state.withLock { state in
            for address in addresses { state.addresses[address.session] = address.jid }
            state.rows += rows
            guard let file = state.file else { return }
            var lines: [UInt8] = []
            for row in rows {
                lines += row.entry(state.addresses).json.utf8
                lines.append(UInt8(ascii: "\n"))
            }
            let isWritten: Void? = try? lines.withUnsafeBytes { try file.write($0) }
            if isWritten == nil { state.isFileBroken = true }
        }
    }
}

/// An entry as it is kept: the address is kept once for each session, and short texts need no memory of their own.
package struct ServerLogRow: Sendable {
    var time: Timestamp
    package var event: ServerLogEntry.Event
    package var isCounted = false
    package var isResent = false
    package var hasH = false
    package var h: UInt32 = 0
    package var connection: Int32
    package var session: Int32
    package var name: ForeignText?
    package var type: ForeignText?
    package var id: ForeignText?
    package var peer: ForeignText?
    var xml: [UInt8]?

    func entry(_ addresses: [Int32: JID]) -> ServerLogEntry {
        ServerLogEntry(
            time: time, event: event, connection: Int(connection), session: Int(session),
            jid: addresses[session], name: name, type: type, id: id, peer: peer, isCounted: isCounted,
            isResent: isResent,
            h: hasH ? h : nil, xml: xml.map { String(decoding: $0, as: UTF8.self) })
    }
}

// MARK: - What follows from a log

extension Sequence<ServerLogEntry> {
    /// The stanzas of clients that came more than once within one session, each once: a client that follows XEP-0198
    /// sends again only what the server did not count, so there must be none.
    ///
    /// Stanzas are the same when session, peer, name, type and id are. Those without an id are left out.
    public var repeatedStanzas: [ServerLogEntry] { repeated(.received) { $0.isStanza } }

    /// The stanzas that the server handed over more than once within one session.
    package var repeatedDeliveries: [ServerLogEntry] { repeated(.delivered) { $0.isStanza } }

    /// Returns the sessions in which a stanza with this id came from a client, in order of arrival, one for each time.
    ///
    /// - Parameter id: The stanza's id.
    /// - Returns: The numbers of the sessions, counted from 1.
    package func sessions(thatSent id: String) -> [Int] {
        filter { $0.event == .received && $0.isStanza && $0.id == id }.map(\.session)
    }

    /// The ids of the stanzas that came in each session, in order of arrival.
    package var idsBySession: [Int: [ForeignText]] {
        reduce(into: [:]) { sessions, entry in
            guard entry.event == .received, entry.isStanza, let id = entry.id else { return }
            sessions[entry.session, default: []].append(id)
        }
    }

    private func repeated(
        _ event: ServerLogEntry.Event, where matches: (ServerLogEntry) -> Bool
    ) -> [ServerLogEntry] {
        var times: [[ForeignText]: Int] = [:]
        return filter { entry in
            guard entry.event == event, entry.session != 0, let id = entry.id, matches(entry) else {
                return false
            }
            let key = ["\(entry.session)", entry.peer ?? "", entry.name ?? "", entry.type ?? "", id]
            times[key, default: 0] += 1
            return times[key] == 2
        }
    }
}
