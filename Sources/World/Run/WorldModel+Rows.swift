import XMPPCore

// The rows that the model reads from the application's tables, and the meaning of their ids.
extension WorldModel {
    /// The rows of the application since the last look.
    struct Look {
        var bound: [(n: Int, kind: String, stanza: String?, process: String)] = []
        var ended: [(row: Int, n: Int, outcome: String, process: String)] = []
        var received: [(row: Int, stanza: String, process: String)] = []
        /// The number of waiting handlers that end once and store their ending.
        var waiting = 0
        /// The number of requests and stanzas from sessions before the last one.
        var ofLostSessions = 0
        /// The number of takeovers of the stream.
        var epoch = 0
        /// How often a store found that it is older than the stanzas sent from it.
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

    /// All rows of the application.
    struct Stored {
        struct Bound: Equatable { var kind = "", stanza = "", process = "" }
        var bound: [Int: Bound] = [:]
        var ended: [Int] = []
        var received: [String] = []
    }

    /// The id of a peer's message in a row, without the description of an error.
    static func id(_ row: String) -> String { String(row.prefix { $0 != " " }) }

    /// The id of a message or answer of the peer; nil for one that contains nothing for the application.
    static func numbered(_ id: ForeignText) -> String? {
        var id = "\(id)"
        // A message with an item that the server showed again.
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

    /// The violation without the numbers and names of the run.
    package var kind: String? {
        violation?.split(separator: " ").filter { !$0.contains(where: \.isNumber) }.joined(separator: " ")
    }

    /// A session as the server sees it.
    struct Session {
        /// The ids of the peer's counted stanzas in the order of their delivery; nil for stanzas of others.
        var delivered: [String?] = []
        var acknowledged = 0
        /// The ids of counted stanzas of the client.
        var arrived: Set<String> = []
        var lastNumber = 0
        /// The ways in which deliveries explain what is stored: the last delivered message that is stored, as its place among the
        /// delivered ones, and its number.
        var lastStored = [(place: -1, number: 0)]
        /// The same for messages that contain an item.
        var lastItem = (place: -1, number: 0)
    }
}
