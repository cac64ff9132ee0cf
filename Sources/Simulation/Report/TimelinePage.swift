import FoundationEssentials
package import Handlers
package import XMPPCore

/// The content of a page that draws handlers over time. Times are in milliseconds since its start.
package struct TimelinePage: Encodable {
    package struct Process: Encodable {
        package var role: String
        package var pid: Int32
        package var start: Int64
        package var end: Int64
        package var fate: String
        package var frozen: [[Int64]]
    }

    package var title: String
    /// One line that says whether all is well.
    package var verdict: String
    package var isGood: Bool
    /// The summary.
    package var summary: String
    package var duration: Int64
    /// The start in milliseconds since 1970, of a page that shows dates; nil for one that shows the time since its start.
    package var since: Int64?
    /// The present, to which what has not ended is drawn; nil if that is the end of the page.
    package var now: Int64?
    /// The roles of the processes; each has a lane above the handlers.
    package var lanes: [String] = []
    package var processes: [Process] = []
    package var marks: [Chronicle.Mark] = []
    /// The distinct names of the handlers.
    package var names: [String]
    /// The names of lanes of handlers; empty if all share the rows.
    package var groups: [String] = []
    package var handlers: [Bar]

    /// Makes a page without processes.
    ///
    /// - Parameter names: The names of the handlers, to which their bars refer.
    package init(
        title: VisibleText, verdict: String, isGood: Bool, summary: VisibleText, duration: Int64,
        names: [String], handlers: [Bar]
    ) {
        (self.title, self.verdict, self.isGood) = (title.description, verdict, isGood)
        (self.summary, self.duration, self.handlers) = (summary.description, duration, handlers)
        self.names = names.map { Bar.shown($0) }
    }

    /// Returns the whole page, which needs no other files.
    package func page() throws -> String {
        let data = Self.withoutMarkup(try OneLineJSON.text(self))
        return Self.text(PackageResources.report_html)
            .replacing("/*STYLE*/", with: Self.text(PackageResources.report_css))
            .replacing("/*SCRIPT*/", with: Self.text(PackageResources.report_js))
            .replacing("/*DATA*/", with: data)
    }

    /// Escapes JSON so that no text in it ends the script element that contains it.
    private static func withoutMarkup(_ json: String) -> String {
        json.replacing("<", with: "\\u003c").replacing(">", with: "\\u003e")
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}

extension TimelinePage {
    /// A handler from its binding to its end, encoded as an array so that thousands of them stay small.
    package struct Bar: Encodable {
        /// How a handler ended, or the state of one that has not.
        package enum State: Equatable {
            case ended(Outcome)
            case waiting, running, parked, quarantined
            /// It ended in a way that this program does not know.
            case unknown

            /// The index into `OUTCOMES` of the page.
            fileprivate var number: Int {
                switch self {
                case .ended(let outcome): Int(outcome.rawValue) - 1
                case .waiting: 4
                case .running: 5
                case .parked: 6
                case .quarantined: 7
                case .unknown: 8
                }
            }
        }

        package var id: Int64
        /// Index into ``TimelinePage/names``.
        package var name: Int
        /// The arguments as JSON, with secrets masked.
        package var arguments: String
        /// Nil if it is not known; then the handler is a point.
        package var bound: Int64?
        /// Nil if it has not ended.
        package var ended: Int64?
        package var state: State
        package var reason: String?
        package var trace: Int64
        /// Indexes into ``TimelinePage/processes``.
        package var boundBy: Int?
        package var endedBy: Int?
        /// The times of its failed calls.
        package var failures: [Int64] = []
        /// Index into ``TimelinePage/groups``; nil on a page without them.
        package var group: Int?
        /// When a runner calls or expires it.
        package var due: Int64?
        /// The reason why it has not ended, as a sentence without its subject.
        package var why: String?
        package var key: String?
        /// The handler that waits for it.
        package var parent: Int64?

        package init(
            id: Int64, name: Int, arguments: String, bound: Int64?, ended: Int64?, state: State,
            reason: String?, trace: Int64
        ) {
            (self.id, self.name, self.arguments, self.bound) = (id, name, arguments, bound)
            (self.ended, self.state, self.reason, self.trace) = (ended, state, reason, trace)
        }

        /// Counts the times from a start.
        package mutating func move(start: Int64) {
            bound = bound.map { $0 - start }
            ended = ended.map { $0 - start }
            due = due.map { $0 - start }
            failures = failures.map { $0 - start }
        }

        /// The maximum length of a shown text.
        private static let limit = 2000

        private static func cut(_ text: String) -> String {
            text.utf8.count > limit ? text.prefix(limit) + " …" : text
        }

        package static func shown(_ text: String) -> String { VisibleText(cut(text)).description }

        /// Encodes the values in the order in which the page reads them.
        package func encode(to encoder: any Encoder) throws {
            var row = encoder.unkeyedContainer()
            try row.encode(id)
            try row.encode(name)
            try row.encode(VisibleText(json: Self.cut(arguments)).description)
            try row.encode(bound)
            try row.encode(ended)
            try row.encode(state.number)
            try row.encode(boundBy)
            try row.encode(endedBy)
            try row.encode(reason.map(Self.shown))
            try row.encode(trace)
            if !failures.isEmpty || group != nil { try row.encode(failures) }
            guard let group else { return }
            var more = row.nestedContainer(keyedBy: More.self)
            try more.encode(group, forKey: .group)
            try more.encodeIfPresent(due, forKey: .due)
            try more.encodeIfPresent(why.map(Self.shown), forKey: .why)
            try more.encodeIfPresent(key.map(Self.shown), forKey: .key)
            try more.encodeIfPresent(parent, forKey: .parent)
        }

        private enum More: CodingKey { case group, due, why, key, parent }
    }
}
