import FoundationEssentials

/// The file of a page, which a command writes for a browser.
package struct ReportFile {
    private let path: String

    package init(_ path: String) { self.path = path }

    /// Checks that the file can be written, before work that may take long.
    func check() throws {
        let folder = URL(filePath: path).deletingLastPathComponent().path
        var isFolder = false
        let exists = FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder)
        guard exists, isFolder, FileManager.default.isWritableFile(atPath: folder) else { throw unwritable }
    }

    /// Writes the page, and prints the path of the file.
    package func write(_ page: String) throws {
        guard (try? Data(page.utf8).write(to: URL(filePath: path))) != nil else { throw unwritable }
        Terminal.writeError("The report is in \(path); open it in a browser.\n")
    }

    private var unwritable: CommandFailure {
        CommandFailure(
            "the report cannot be written to \(path); check that its folder exists and can be written")
    }
}
