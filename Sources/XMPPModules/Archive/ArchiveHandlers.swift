import Handlers
import XMPPAccount
import XMPPCore

/// Continues after a page: with the next one, or with another archive.
struct ArchivePageFetched: Handler {
    static let id = "archive.page-fetched"
    var archive: JID
    var query: String

    /// The wait before the first further try; each is twice as long as the one before.
    private static let firstRetry = Duration.seconds(15)
    /// No wait is longer.
    private static let longestRetry = Duration.seconds(1800)

    func run(_ call: borrowing Call<IQReply>) throws {
        let account = call.account
        let table = ArchiveTable(account: account.id)
        // Forgotten meanwhile.
        guard let asked = try table.remove(query, in: call.step) else { return }
        try account.usingReserve(in: call.step) {
            switch call.outcome {
            case .result(let payload): try go(on: payload, asked, account, table, in: call.step)
            case .error(let error): try fail(error, account, table, in: call.step)
            case .timeout: try retry(account, table, in: call.step)
            }
            try account.archive.askNext(in: call.step)
        }
        for progress in try table.progress(of: archive, in: call.step) {
            account.report(progress, after: call.step)
        }
    }

    private func go(
        on payload: Element?, _ asked: ArchiveTable.Query, _ account: Account, _ table: ArchiveTable,
        in step: borrowing Step
    ) throws {
        let fin = payload.flatMap { $0.has(name: "fin", namespace: Namespaces.mam) ? $0 : nil }
        let page = fin.flatMap { ResultPage(in: $0) }
        if fin?.isComplete == true {
            if let last = page?.last?.token { try table.passUnread(in: archive, to: last, in: step) }
            return try table.complete(archive, in: step)
        }
        switch try table.turnPage(archive, after: asked, page, in: step) {
        case .page:
            let module: ArchiveModule = try account.module()
            try account.archive.askPage(of: archive, module.pageSize, in: step)
        case .end: try table.complete(archive, in: step)
        case .circle:
            try table.set(archive, .failed, failure: ForeignText(ArchiveProgress.standsStill), in: step)
        }
    }

    private func fail(
        _ error: StanzaError, _ account: Account, _ table: ArchiveTable, in step: borrowing Step
    ) throws {
        // XEP-0313 section 4.3.1: the message with that id has left the archive. Some servers say that something else is wrong
        // with what was asked. A place that the archive has just named it must know.
        let place = try table.place(in: archive, in: step)
        if error.condition == .itemNotFound || error.kind == .modify, place.lastID != nil, place.pages == 0,
            try table.progress(of: archive, in: step).first?.received == 0
        {
            account.log(
                .warning, .archive,
                "the archive of \(archive) does not know the last message any more; begins by time",
                after: step)
            try table.forgetPlace(in: archive, in: step)
            return try table.set(archive, .waiting, in: step)
        }
        if error.kind == .wait { return try retry(account, table, in: step) }
        try table.set(
            archive, .failed,
            failure: error.condition.rawValue.prefix(bytes: ForeignBounds.condition), in: step)
    }

    /// Tries again later; what came so far is not asked for again.
    private func retry(_ account: Account, _ table: ArchiveTable, in step: borrowing Step) throws {
        let failures = try table.countFailure(archive, in: step)
        let wait = min(Self.firstRetry * (1 << min(failures - 1, 16)), Self.longestRetry)
        account.log(
            .warning, .archive, "the archive of \(archive) cannot answer now; asked again in \(wait)",
            after: step)
        try step.schedule(ArchiveRetry(archive: archive).durable, after: wait, in: account.scope)
    }
}

/// The time to try again has come.
struct ArchiveRetry: Handler {
    static let id = "archive.retry"
    var archive: JID

    func run(_ call: borrowing Call<TimerFired>) throws {
        let account = try call.context.account
        try ArchiveTable(account: account.id).retry(archive, in: call.step)
        try account.usingReserve(in: call.step) { try account.archive.askNext(in: call.step) }
    }
}

/// Turns the answer to a look back into an ``ArchivePage``.
struct ArchiveHistoryFetched: Handler {
    static let id = "archive.history-fetched"
    var archive: JID
    var query: String
    var then: Durable<ArchivePage>

    func run(_ call: borrowing Call<IQReply>) throws {
        let asked = try ArchiveTable(account: call.account.id).remove(query, in: call.step)
        let outcome: ArchivePage.Outcome =
            switch call.outcome {
            case .result(let payload): Self.page(payload, asked)
            case .error(let error): .error(error)
            case .timeout: .timeout
            }
        try call.step.run(then, with: ArchivePage(account: call.account, archive: archive, outcome: outcome))
    }

    /// The page as the service describes it, and where it does not, by the messages that came. One that leads nowhere is the last.
    private static func page(_ payload: Element?, _ asked: ArchiveTable.Query?) -> ArchivePage.Outcome {
        var page = payload.flatMap { ResultPage(in: $0) } ?? ResultPage()
        page.first = page.first ?? asked?.first ?? page.last
        page.last = page.last ?? asked?.last ?? page.first
        let leadsOn = [page.first, page.last].contains { $0 != nil && $0 != asked?.asked }
        return .page(isLast: payload?.isComplete == true || !leadsOn, page)
    }
}

extension Element {
    /// Whether the end of a page says that there are no more (XEP-0313 section 4.3.2).
    fileprivate var isComplete: Bool { (try? value(of: "complete")) == true }
}
