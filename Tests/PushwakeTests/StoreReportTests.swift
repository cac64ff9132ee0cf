import Foundation
import Handlers
import HandlersTestKit
import Platform
import TestSupport
import TestThreads
import Testing
import XMPPAccount

@testable import PushwakeCommands

/// The page that `pushwake report` draws of any store.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(5)))
struct StoreReportTests {
    private let folder: TemporaryFolder
    private let clock = VirtualClock()
    private let store: HandlerStore
    private var path: String { folder.path + "/store.db" }

    struct Thank: Handler {
        static let id = "page-test.thank"
        static let retry = RetryPolicy.never
        var customer: String
        var token = Secret("hush")
        func run(_ call: borrowing Call<TimerFired>) throws {
            if customer == "Eve" { throw Broken() }
        }
    }

    struct Confirm: Handler {
        static let id = "page-test.confirm"
        func run(_ call: borrowing Call<Joined>) throws {}
    }

    struct Broken: Error, CustomStringConvertible { let description = "the printer is on fire" }

    init() throws {
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry([Thank.self, Confirm.self]),
            schemas: Account.schemas, synchronous: .normal, time: clock.timeSource)
    }

    private func thank(_ customer: String = "Ada") throws -> Durable<TimerFired> {
        try Thank(customer: customer).durable
    }

    private var fired: TimerFired { TimerFired(dueAt: Timestamp(milliseconds: 1)) }

    private func page(limit: Int = 2000) throws -> String {
        let reader = StoreReader(path: path, schemas: Account.schemas, time: clock.timeSource)
        return try StoreTimeline(reader, limit: limit).page()
    }

    /// The data of a page, which stands in it as JSON.
    private func data(_ page: String) throws -> [String: Any] {
        let start = try #require(page.range(of: "id=\"data\">"))
        let text = page[start.upperBound...].prefix { $0 != "<" }
        return try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    private func report(_ words: String...) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", ["report", "--store", path] + words)
    }

    // MARK: What is drawn

    /// A store with a handler in each state, a chain and a join, over ten minutes.
    private func makeStore() throws {
        try store.step { step in
            let root = try step.bind(thank(), key: "order-17", deadline: step.now + .seconds(900))
            let next = try step.bind(thank())
            try step.execute("UPDATE handler SET trace = ? WHERE id = ?", root, next)
            let eve = try step.bind(thank("Eve"))
            _ = try step.end(eve, .result, with: fired)
            for state in [Transaction.State.parked, .leased] {
                let id = try step.bind(thank())
                try step.execute(
                    "UPDATE handler SET state = ?, reason = 'no program' WHERE id = ?", state.rawValue, id)
            }
        }
        clock.advance(by: .seconds(300))
        try store.step { step in
            let children = [try step.bind(thank("Bob")), try step.bind(thank("Bob"))]
            try step.join(Confirm().durable, when: .all, of: children.map { AnyHandlerID($0) })
            _ = try step.end(children[0], .result, with: fired)
            try step.end(try step.bind(thank()), .error, with: fired)
            try step.schedule(thank(), after: .seconds(10_000_000))
        }
        clock.advance(by: .seconds(300))
    }

    @Test(
        "W9 the report draws what waits from bound to now, with due times, reasons and joins, and endings as points"
    )
    func drawn() throws {
        try makeStore()
        let said = try Browser(folder: folder).run(
            page(),
            """
            const by = id => byId.get(id);
            say('states', handlers.map(handler => handler.id + ' ' + handler.outcome).sort().join());
            say('root', [by(1).bound, by(1).until === now, by(1).due, by(1).key].join());
            say('point', [by(6).isPoint, by(6).ended, by(6).bound].join());
            say('now', now);
            say('far', [by(10).due > end, end < 2 * now].join());
            say('join', [by(6).parent, by(7).parent].join());
            say('groups', data.groups.join());
            say('chain', by(1).group === by(2).group && by(1).group !== by(3).group);
            say('labels', rows.filter(row => row.label !== undefined).map(row => row.label).join());
            select(by(1)); say('panel', panel.textContent);
            select(by(3)); say('quarantined', panel.textContent);
            select(by(6)); say('ended', panel.textContent);
            select(by(8)); say('parent', panel.textContent);
            select(null); say('none', panel.textContent); say('verdict', element('verdict').textContent);
            say('bad', element('verdict').classList.contains('bad')); say('about', element('summary').textContent);
            let texts = []; const write = context.fillText.bind(context);
            context.fillText = (text, ...rest) => { texts.push(text); write(text, ...rest); };
            let curves = 0; const curve = context.quadraticCurveTo.bind(context);
            context.quadraticCurveTo = (...all) => { curves += 1; curve(...all); };
            draw(); say('texts', texts.join('|')); say('curves', curves);
            find.value = 'order-17'; find.dispatchEvent(new Event('input')); say('found', selected.id);
            """)
        #expect(said["error"] == nil, "\(said)")
        #expect(
            said["states"]
                == "1 waiting,10 waiting,2 waiting,3 quarantined,4 parked,5 running,6 result,7 waiting,8 waiting,9 error",
            "\(said)")
        #expect(said["root"] == "0,true,900000,order-17" && said["point"] == "true,300000,300000", "\(said)")
        #expect(said["now"] == "600000" && said["far"] == "true,true" && said["join"] == "8,8", "\(said)")
        #expect(
            said["groups"] == "chain #1 page-test.thank,page-test.thank,page-test.confirm"
                && said["labels"] == said["groups"] && said["chain"] == "true", "\(said)")
        let panel = said["panel"] ?? ""
        for word in [
            "order-17", "2025-06-15 15:06:40.000 UTC", "not yet", "outcomewaits", "10.0 min",
            "&lt;secret&gt;",
            "waits for its call, or a signal to the key 'order-17'; its deadline is in 5 min",
        ] { #expect(panel.contains(word), "\(word) in \(panel)") }
        #expect(said["quarantined"]?.contains("quarantined (the printer is on fire)") == true, "\(said)")
        #expect(said["ended"]?.contains("the store does not keep that") == true, "\(said)")
        #expect(said["parent"]?.contains("joins#6 #7") == true, "\(said)")
        #expect(said["none"]?.contains("10 handlers") == true, "\(said)")
        #expect(said["verdict"] == "Quarantined: 1. Parked: 1." && said["bad"] == "true", "\(said)")
        #expect(
            said["about"]?.hasPrefix("Not ended: 8 (5 pending, 1 parked, 1 quarantined, 1 running).") == true,
            "\(said)")
        #expect(said["texts"]?.contains("the printer is on fire") == true, "\(said)")
        #expect(said["curves"] == "2" && said["found"] == "1", "\(said)")
    }

    @Test("W9 the report of a store follows the system's colors, and fits a phone")
    func phone() throws {
        try makeStore()
        let said = try Browser(folder: folder).run(
            page(),
            """
            say('paper', colors.paper); say('wide', document.documentElement.scrollWidth <= innerWidth);
            say('label', LABEL < view.width / 2); say('waiting', colors.waiting !== colors.quarantined);
            """,
            options: [
                "--window-size=500,844", "--force-dark-mode", "--blink-settings=preferredColorScheme=0",
            ])
        #expect(said["error"] == nil && said["paper"] == "#14181d", "\(said)")
        for name in ["wide", "label", "waiting"] { #expect(said[name] == "true", "\(name): \(said)") }
    }

    @Test("W9 no name, reason, key or argument becomes a part of the report's page, and secrets stay masked")
    func hostile() throws {
        let text = "</script><img src=x onerror=alert(1)>\u{1B}[31m\u{202E}"
        try store.step { step in
            let id = try step.bind(thank(text), key: text)
            try step.execute(
                "UPDATE handler SET name = ?, reason = ?, state = 2 WHERE id = ?", text, text, id)
            let ended = try step.bind(thank())
            try step.end(ended, .result, with: fired)
            try step.execute("UPDATE ending SET name = ?, reason = ?", text, text)
        }
        let page = try page()
        #expect(page.components(separatedBy: "<img").count == 1 && !page.contains("hush"))
        for character in ["\u{1B}", "\u{202E}"] { #expect(!page.contains(character)) }
        #expect(try data(page)["names"] as? [String] != nil, "a text has ended the data")
        let said = try Browser(folder: folder).run(
            page,
            "select(byId.get(1)); say('panel', panel.textContent); say('images', document.images.length);")
        #expect(said["error"] == nil && said["images"] == "0", "\(said)")
        #expect(said["panel"]?.contains("&lt;img src=x onerror=alert(1)&gt;") == true, "\(said)")
    }

    @Test(
        "W9 a report shows the newest handlers that have not ended and the newest endings, and says of how many"
    )
    func limits() throws {
        try store.step { step in
            for _ in 0..<7 { try step.end(try step.bind(thank()), .result, with: fired) }
            for _ in 0..<5 { _ = try step.bind(thank()) }
        }
        let data = try data(page(limit: 3))
        let ids = (data["handlers"] as? [[Any]])?.compactMap { $0.first as? Int }.sorted()
        #expect(ids == [5, 6, 7, 10, 11, 12])
        let summary = try #require(data["summary"] as? String)
        #expect(summary.contains("Not ended: 5 (5 pending); the newest 3 are shown"), "\(summary)")
        #expect(summary.contains("Ended: 7 (7 result); the newest 3 are shown"), "\(summary)")
        #expect(data["is_good"] as? Bool == true)
    }

    @Test("W9 no number in a row keeps the report from being drawn", arguments: [Int64.min, -1, 0, .max])
    func numbers(number: Int64) throws {
        try store.step { step in
            try step.join(Confirm().durable, when: .all, of: [AnyHandlerID(step.bind(thank()))])
            try step.end(try step.bind(thank()), .result, with: fired)
            try step.execute("UPDATE handler SET bound_at = ?, due = ?, attempts = ?", number, number, number)
            try step.execute("UPDATE handler SET trace = ?, period = ?", number, number)
            try step.execute("UPDATE ending SET ended_at = ?, outcome = ?, trace = ?", number, number, number)
            try step.execute("UPDATE handler_join SET waiting = ?, needed = ?", number, number)
        }
        let said = try Browser(folder: folder).run(
            page(),
            """
            say('count', handlers.length); say('order', handlers.every(bar => bar.bound >= 0 && bar.bound <= bar.until));
            key('Home'); key('End'); key('+'); settled();
            """)
        #expect(said["error"] == nil && said["count"] == "3" && said["order"] == "true", "\(said)")
    }

    @Test("W9 an empty store has a report, too")
    func empty() throws {
        let said = try Browser(folder: folder).run(page(), "say('panel', panel.textContent);")
        #expect(said["error"] == nil && said["panel"]?.contains("0 handlers") == true, "\(said)")
    }

    // MARK: The command

    @Test("W9 report writes the page to a file or to standard output, beside a program and of a copy")
    func command() throws {
        try makeStore()
        let file = folder.path + "/page.html"
        let written = try report("--output", file)
        #expect(written.status == 0 && written.complaint.contains("The report is in \(file)"), "\(written)")
        #expect(try FileStatus(file).isOpenToOthers == false)
        let printed = try report()
        #expect(printed.status == 0 && printed.output.hasPrefix("<!DOCTYPE html>"), "\(printed)")
        let copy = folder.path + "/copy.db"
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
        }
        let copied = try ProgramEnding(of: "pushwake", ["report", "--store", copy])
        let texts = [try String(contentsOfFile: file, encoding: .utf8), printed.output, copied.output]
        for text in texts { #expect((try data(text)["handlers"] as? [Any])?.count == 10) }
        #expect(try store.step { try $0.handlers().count } == 8)
    }

    @Test("W9 report refuses what is no store, a file of the store, and a folder that is not there")
    func refusals() throws {
        let foreign = folder.path + "/foreign.db"
        try Data().write(to: URL(filePath: foreign))
        let refused = try ProgramEnding(of: "pushwake", ["report", "--store", foreign])
        #expect(
            refused.status == 1 && refused.complaint.contains("holds no store: it is empty"), "\(refused)")
        let link = folder.path + "/link.html"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        for file in [path, path + "-wal", link] {
            let kept = try report("--output", file)
            #expect(kept.status == 64 && kept.complaint.contains("names a file of the store"), "\(kept)")
        }
        #expect(try store.step { try $0.handlers().count } == 0)
        let gone = try report("--output", folder.path + "/gone/page.html")
        #expect(gone.status == 1 && gone.complaint.contains("check that its folder exists"), "\(gone)")
        let limit = try report("--limit", "0")
        #expect(limit.status == 64 && limit.complaint.contains("from 1 to 1000000"), "\(limit)")
    }
}
