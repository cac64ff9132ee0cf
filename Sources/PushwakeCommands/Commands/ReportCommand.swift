import Glibc
import Handlers
import Platform
import XMPPAccount
import XMPPCore

/// `pushwake report`: draws the timeline of any store as one page for a browser. It only reads.
package struct ReportCommand {
    let store: StoreAddress
    private let opener: StoreOpener
    private let output: String?
    private let limit: Int

    package init(_ words: [String], _ opener: StoreOpener) throws {
        let arguments = try Arguments(words, of: "report")
        store = StoreAddress(try arguments.required("--store"))
        self.opener = opener
        output = arguments.value("--output")
        limit = try arguments.number("--limit", in: 1...1_000_000, default: 2000)
        guard output != nil || isatty(STDOUT_FILENO) == 0 else {
            throw UsageError("name the file of the page with --output, or send standard output to one")
        }
    }

    package func run() throws -> Int32 {
        let file = output.map(ReportFile.init)
        try file?.check()
        let reader = try opener.reader(store.text, Account.schemas)
        let page = try StoreTimeline(reader, limit: limit).page()
        try refuseStore()
        // Arguments are as private as the store, which other users cannot read.
        umask(0o077)
        if let file { try file.write(page) } else { Terminal.say(VisibleText(lines: page)) }
        return 0
    }

    /// Refuses to write over the store, and over the files beside it, whatever their other names.
    private func refuseStore() throws {
        guard let output, let written = try? FileStatus(output) else { return }
        for suffix in ["", "-wal", "-shm", "-processes", "-signal"] {
            guard let own = try? FileStatus(store.text + suffix) else { continue }
            if own.inode == written.inode {
                throw UsageError("--output names a file of the store, \(output); name another file")
            }
        }
    }
}
