import Foundation
import TestSupport
import TestServers

/// Chromium without a window, as Debian's package `chromium` installs it.
struct Browser {
    let folder: TemporaryFolder

    /// Opens a page, runs a script in it once it is loaded, and returns what the script wrote down.
    ///
    /// - Parameters:
    ///   - page: The page's text.
    ///   - script: JavaScript; `say(name, value)` writes a line, `settled()` draws the page.
    ///   - address: What follows `#` in the address.
    ///   - options: More options of Chromium.
    /// - Returns: What was said, by name.
    func run(_ page: String, _ script: String, address: String = "", options: [String] = []) throws
        -> [String: String]
    {
        let file = folder.path + "/page-\(UUID().uuidString).html"
        let harness = """
            <pre id="said"></pre><script>
            const said = [];
            const say = (name, value) => said.push(name + '=' + value);
            // Frames come when the browser likes; a test does not wait for one.
            const settled = () => { resize(); draw(); };
            const key = (name, target) => (target || canvas).dispatchEvent(
                new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
            const point = (kind, left, top, type) => { const box = canvas.getBoundingClientRect(); canvas.dispatchEvent(
                new PointerEvent(kind, { pointerId: 7, pointerType: type || 'mouse', clientX: box.left + left, clientY: box.top + top, bubbles: true })); };
            addEventListener('error', event => said.push('error=' + event.message));
            try { settled(); \(script) } catch (error) { said.push('error=' + error); }
            document.getElementById('said').textContent = said.join('\\n');
            </script></body>
            """
        try Data(page.replacing("</body>", with: harness).utf8).write(to: URL(filePath: file))
        let dom = try dump(file + (address.isEmpty ? "" : "#" + address), options)
        guard let begin = dom.range(of: "<pre id=\"said\">"),
            let end = dom.range(of: "</pre>", range: begin.upperBound..<dom.endIndex),
            begin.upperBound < end.lowerBound
        else { return ["error": "the page did not come to its end: \(dom.suffix(500))"] }
        let lines = dom[begin.upperBound..<end.lowerBound].split(separator: "\n").map {
            $0.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        }
        return Dictionary(
            lines.map { ($0[0], $0.count > 1 ? $0[1] : "") }, uniquingKeysWith: { first, _ in first })
    }

    private func dump(_ file: String, _ options: [String]) throws -> String {
        let process = try ChildProcess(
            "chromium",
            [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run", "--disable-background-networking", "--user-data-dir=\(folder.path)/browser",
                "--dump-dom",
            ] + options + ["file://" + file], output: .pipe, errors: .null)
        let dom = try process.output?.readToEnd(deadline: .now + .seconds(120)) ?? ""
        _ = try process.waitUntilExit(deadline: .now + .seconds(30))
        return dom
    }
}
