import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

@testable import Simulation

/// The page of a run, in a browser.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10)))
struct ReportTests {
    private let folder: TemporaryFolder
    private let browser: Browser

    init() throws {
        folder = try TemporaryFolder()
        browser = Browser(folder: folder)
    }

    /// A run of `count` handlers of 40 ms each, one a millisecond; the processes take turns of a second and are killed.
    private func page(_ count: Int, argument: String = "x") throws -> String {
        let flights = (0..<count).map { flight($0, argument) }
        let lives = (0...count / 1000).map { n -> Chronicle.Life in
            let start = Int64(n) * 1000
            let role = n % 2 == 0 ? "main" : "worker"
            return Chronicle.Life(
                role: role, pid: Int32(100 + n), start: start, end: start + 1000, fate: "killed")
        }
        let epochs = lives.enumerated().map {
            FlightRecorder.Epoch(number: Int64($0.offset), owner: $0.element.role, since: $0.element.start)
        }
        return try TimelinePage(
            title: "A run", verdict: "Every handler ended exactly once.", isGood: true, summary: "All of it.",
            lives: lives, marks: [.init(at: 500, kind: "push", text: "a push")],
            record: .init(flights: flights, epochs: epochs, sessions: [])
        ).page()
    }

    private func flight(_ n: Int, _ argument: String) -> FlightRecorder.Flight {
        var flight = FlightRecorder.Flight(
            id: Int64(n + 1), name: n % 2 == 0 ? "demo.even" : "demo.odd",
            arguments: "{\"n\":\(n),\"text\":\"\(argument)\"}", bound: Int64(n), boundBy: Int64(n / 1000),
            trace: Int64(n / 2 * 2 + 1))
        flight.ended = Int64(n + 40)
        flight.endedBy = Int64((n + 40) / 1000)
        flight.outcome = Outcome(rawValue: Int64(n % 4 + 1))
        if n % 4 == 3 { flight.reason = "session-lost" }
        return flight
    }

    @Test("W7 the page stands alone: it loads nothing, and no argument can become a part of it")
    func selfContained() throws {
        let plain = try page(3)
        let isClosed = plain.contains("default-src 'none'")
        #expect(isClosed)
        for word in ["http:", "https:", "src=", "@import", "url("] {
            let isFound = plain.contains(word)
            #expect(!isFound, "the page holds \(word)")
        }
        let said = try browser.run(
            page(3, argument: "</script><img src=x onerror=alert(1)>"),
            "key('Home'); say('panel', panel.textContent); say('images', document.images.length);")
        #expect(said["error"] == nil && said["images"] == "0", "\(said)")
        #expect(said["panel"]?.contains("onerror=alert(1)") == true, "\(said)")
    }

    @Test(
        "W7 arrows go from handler to handler, keys zoom and let go, and the panel tells arguments, outcome and processes"
    )
    func keyboard() throws {
        let said = try browser.run(
            page(2000),
            """
            canvas.focus(); say('focus', document.activeElement === canvas);
            say('whole', x(0) >= LABEL && x(end) <= view.width);
            key('ArrowRight'); say('first', selected.id);
            key('ArrowRight'); key('ArrowRight'); say('third', selected.id);
            key('ArrowLeft'); say('second', selected.id);
            const row = selected.row; key('ArrowDown'); say('below', selected.row > row);
            key('End'); say('last', selected.id);
            const before = view.scale; key('+'); settled(); say('zoomed', view.scale > before);
            say('kept', x(selected.bound) > LABEL && x(selected.until) < view.width);
            key('Home'); settled();
            say('revealed', selected.id === 1 && x(selected.bound) >= LABEL && x(selected.until) <= view.width);
            key('0'); settled(); say('fits', x(0) >= LABEL && x(end) <= view.width && view.scale === fittingScale());
            element('find').value = '981'; element('find').dispatchEvent(new Event('input'));
            say('panel', panel.textContent); say('address', location.hash);
            key('Escape'); say('none', selected === null);
            key('/', document.body); say('search', document.activeElement === find);
            """)
        #expect(said["error"] == nil, "\(said)")
        for name in ["focus", "whole", "below", "zoomed", "kept", "revealed", "fits", "none", "search"] {
            #expect(said[name] == "true", "\(name): \(said)")
        }
        #expect([said["first"], said["third"], said["second"], said["last"]] == ["1", "3", "2", "2000"])
        let panel = said["panel"] ?? ""
        // From bound in one process to ended in the next, over a kill.
        for word in [
            "#981 demo.even", "\"n\": 980", "+0.980 s in main (process 100)",
            "+1.020 s in worker (process 101)",
            "result", "one process was killed meanwhile",
        ] {
            #expect(panel.contains(word), "\(word) in \(panel)")
        }
        #expect(said["address"] == "#handler=981")
    }

    @Test(
        "W7 a tap, a pointer over a bar, and one over a process tell what is there; a bar is drawn in its outcome's color"
    )
    func pointers() throws {
        let said = try browser.run(
            page(200),
            """
            const bar = byId.get(41), left = (x(bar.bound) + x(bar.until)) / 2, top = TOP + bar.row * view.row + 2;
            point('pointermove', left, top); say('hover', panel.textContent);
            point('pointerdown', left, top + 9, 'touch'); point('pointerup', left, top + 9, 'touch');
            say('tapped', selected && selected.id);
            point('pointermove', left, AXIS + 8); say('process', panel.textContent);
            const plain = byId.get(45); key('Escape'); hovered = null; draw();
            const pixel = context.getImageData((x(plain.bound) + 2) * devicePixelRatio, (TOP + plain.row * view.row + 2) * devicePixelRatio, 1, 1).data;
            say('pixel', [...pixel].join()); say('color', colors.result);
            """)
        #expect(said["error"] == nil, "\(said)")
        #expect(said["hover"]?.contains("#41 demo.even") == true, "\(said)")
        #expect(said["tapped"].flatMap { Int($0) } != nil, "\(said)")
        #expect(said["process"]?.contains("main, process 100") == true, "\(said)")
        #expect(said["color"] == "#2b7a55" && said["pixel"] == "43,122,85,255", "\(said)")
    }

    @Test(
        "W7 dark and narrow: the colors follow the system, and on a phone all stands on the screen, below each other"
    )
    func darkAndPhone() throws {
        let script = """
            say('paper', colors.paper); say('wide', document.documentElement.scrollWidth <= innerWidth);
            say('below', panel.getBoundingClientRect().top >= canvas.getBoundingClientRect().bottom - 1);
            say('fits', panel.getBoundingClientRect().bottom <= innerHeight + 1); say('chart', view.height > 150);
            say('buttons', [...document.querySelectorAll('#tools button')].every(button => button.getBoundingClientRect().height >= 36));
            """
        let light = try browser.run(page(50), script, options: ["--window-size=1280,800"])
        let phone = try browser.run(
            page(50), script,
            options: [
                "--window-size=500,844", "--force-dark-mode", "--blink-settings=preferredColorScheme=0",
            ])
        #expect(light["paper"] == "#ffffff" && light["below"] == "false", "\(light)")
        #expect(phone["paper"] == "#14181d" && phone["below"] == "true", "\(phone)")
        for said in [light, phone] {
            #expect(said["error"] == nil, "\(said)")
            for name in ["wide", "fits", "chart", "buttons"] {
                #expect(said[name] == "true", "\(name): \(said)")
            }
        }
    }

    @Test(
        "W7 a run of 10 000 handlers: all are there, one is found by its number, and only what is in view is drawn"
    )
    func tenThousand() throws {
        let said = try browser.run(
            page(10_000),
            """
            say('panel', panel.textContent); say('rows', rows.length);
            find.value = '7777'; find.dispatchEvent(new Event('input')); say('found', selected.id);
            find.value = 'demo.odd'; find.dispatchEvent(new Event('input')); say('odd', element('found').textContent);
            find.value = ''; find.dispatchEvent(new Event('input'));
            select(byId.get(5000)); for (let n = 0; n < 30; n += 1) key('+');
            settled();
            let filled = 0; const fill = context.fillRect.bind(context);
            context.fillRect = (...all) => { filled += 1; fill(...all); };
            draw(); say('filled', filled);
            const box = element('legend').querySelector('input[value=result]'); box.click();
            say('shown', rows.reduce((sum, row) => sum + row.bars.length, 0));
            """, address: "handler=42")
        #expect(said["error"] == nil, "\(said)")
        #expect(
            said["panel"]?.contains("#42 demo.odd") == true,
            "the address did not lead to the handler: \(said)")
        #expect(said["found"] == "7777" && said["odd"] == "5000 found" && said["shown"] == "7500", "\(said)")
        #expect(said["rows"].flatMap { Int($0) } ?? 0 < 60, "\(said)")
        #expect(said["filled"].flatMap { Int($0) } ?? 10_000 < 1000, "\(said)")
    }

    @Test(
        "W7 simulate --report writes the page of a real run with kills, with every handler from bound to ended"
    )
    func realRun() throws {
        let file = folder.path + "/run.html"
        let ending = try ProgramEnding(
            of: "pushwake",
            ["simulate", "--rounds", "3", "--kills", "6", "--seed", "2", "--report", file],
            within: .seconds(120))
        #expect(ending.status == 0, "\(ending)")
        #expect(ending.complaint.contains("The report is in \(file)"), "\(ending)")
        let said = try browser.run(
            String(contentsOfFile: file, encoding: .utf8),
            """
            say('kills', kills.length); say('handlers', handlers.length);
            say('open', handlers.filter(handler => handler.ended === null).length);
            say('nobody', handlers.filter(handler => handler.boundBy === null || handler.endedBy === null).length);
            say('backward', handlers.filter(handler => handler.until < handler.bound).length);
            say('across', handlers.filter(handler => handler.boundBy !== handler.endedBy).length > 0);
            say('sessions', data.marks.filter(mark => mark.kind === 'resumed').length > 0);
            say('verdict', element('verdict').textContent);
            """)
        #expect(said["error"] == nil && said["kills"] == "6", "\(said)")
        #expect(said["open"] == "0" && said["nobody"] == "0" && said["backward"] == "0", "\(said)")
        #expect(said["handlers"].flatMap { Int($0) } ?? 0 > 20, "\(said)")
        #expect(said["across"] == "true" && said["sessions"] == "true", "\(said)")
        #expect(said["verdict"] == "Every handler ended exactly once.")
    }

    @Test("W7 a report that cannot be written is reported before the run starts")
    func unwritable() throws {
        let ending = try ProgramEnding(
            of: "pushwake", ["simulate", "--report", folder.path + "/gone/run.html"])
        #expect(ending.status == 1)
        #expect(
            ending.complaint.contains("check that its folder exists") && !ending.complaint.contains("rounds"),
            "\(ending)")
    }
}
