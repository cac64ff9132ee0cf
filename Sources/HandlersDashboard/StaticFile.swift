/// The files of the page. They hold no data, so everybody may read them.
enum StaticFile {
    private static let types = ["js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"]
    private static let files: [String: [UInt8]] = [
        "acts.js": PackageResources.acts_js, "charts.js": PackageResources.charts_js,
        "core.js": PackageResources.core_js, "handler.js": PackageResources.handler_js,
        "live.js": PackageResources.live_js, "main.js": PackageResources.main_js,
        "pages.js": PackageResources.pages_js, "dashboard.css": PackageResources.dashboard_css,
        "dashboard.svg": PackageResources.dashboard_svg,
    ]
    /// The first parts of the addresses of pages. The script shows the page, so all have one file.
    private static let pages: Set<String> = [
        "handlers", "chains", "timers", "lanes", "accounts", "nodes", "activity", "events", "repairs",
    ]

    /// The size of all files in bytes.
    static var size: Int { files.values.reduce(PackageResources.dashboard_html.count) { $0 + $1.count } }

    static func response(to request: DashboardRequest, _ root: String) throws(DashboardFailure)
        -> DashboardResponse
    {
        guard request.method != "POST", let parts = request.parts else { throw .notFound }
        if parts.first == "assets", parts.count == 2 {
            guard let file = files[parts[1]],
                let type = types[String(parts[1].split(separator: ".").last ?? "")]
            else {
                throw .notFound
            }
            return DashboardResponse(200, type + "; charset=utf-8", file)
        }
        guard parts.count <= 2, parts.first.map(pages.contains) ?? true else { throw .notFound }
        let page = String(decoding: PackageResources.dashboard_html, as: UTF8.self)
            .replacing("%ROOT%", with: escaped(root))
        return DashboardResponse(200, "text/html; charset=utf-8", Array(page.utf8))
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("\"", with: "&quot;").replacing("<", with: "&lt;")
    }
}
