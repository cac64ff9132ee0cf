import XMPPCore

// What is read of the application's tables, and what its ids mean.
extension WorldModel {
    /// The rows of the application since the last look.
    struct Look {
        var bound: [(n: Int, kind: String, stanza: String?, process: String)] = []
        var ended: [(row: Int, n: Int, outcome: String, process: String)] = []
        var received: [(row: Int, stanza: String, process: String)] = []
        /// The handlers in the table that end once and whose end is noted.
        var waiting = 0
        /// The requests and stanzas of sessions before the last one.
        var ofLostSessions = 0
        /// How often the stream was taken over.
        var epoch = 0
        /// How often the store found that it is older than what was sent.
        var copies = 0
    }

    /// The newest row of each table.
    struct Marks: Equatable {
        var bound = 0, ended = 0, received = 0

        func isWithin(_ first: Marks, _ last: Marks) -> Bool {
            first.bound...last.bound ~= bound && first.ended...last.ended ~= ended
                && first.received...last.received ~= received
        }
    }

    /// The rows of the application, whenever they were written.
    struct Stored {
        struct Bound: Equatable { var kind = "", stanza = "", process = "" }
        var bound: [Int: Bound] = [:]
        var ended: [Int] = []
        var received: [String] = []
    }

    /// The id of a message of the peer in a row, without what is wrong with it.
    static func id(_ row: String) -> String { String(row.prefix { $0 != " " }) }

    /// The id of a message of the peer, or of an answer of it; nil for one that holds nothing for the application.
    static func numbered(_ id: ForeignText) -> String? {
        var id = "\(id)"
        // An item of a message, shown again.
        if id.hasPrefix("again-"), let start = id.firstIndex(of: "p") { id = String(id[start...]) }
        return id.hasPrefix("p-") || id.hasPrefix("q-") ? id : nil
    }

    /// The number in an id.
    static func number(in id: String) -> Int {
        id.split(separator: "-").dropFirst().first.flatMap { Int($0) } ?? 0
    }

    /// Whether only the owner of the stream ends such a handler.
    static func endsOnStream(_ kind: String) -> Bool {
        ["question", "message", "change", "publication"].contains(kind)
    }

    /// What is wrong, without the numbers and names of a run.
    package var kind: String? {
        violation?.split(separator: " ").filter { !$0.contains(where: \.isNumber) }.joined(separator: " ")
    }

    /// A session as the server sees it.
    struct Session {
        /// The ids of the counted stanzas of the peer in the order in which they were handed over; nil for others.
        var delivered: [String?] = []
        var acknowledged = 0
        /// The ids of counted stanzas of the client.
        var arrived: Set<String> = []
        var lastNumber = 0
        /// The stored message that was delivered last: its place among the delivered ones, and its number.
        var lastStored = (place: -1, number: 0)
        /// The same of the messages that hold an item.
        var lastItem = (place: -1, number: 0)
    }
}
