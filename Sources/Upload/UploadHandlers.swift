import Handlers
import XMPPAccount
import XMPPCore

// The module's own handlers. Their ids and arguments are stored: they change only with an alias or a version. One that finds
// its upload gone, or waiting for another one, has nothing to do.

/// The time has come to go on with an upload.
struct UploadDue: Handler {
    static let id = "upload.due"
    var upload: UploadID

    func run(_ call: borrowing Call<TimerFired>) throws {
        let uploads = try call.account.uploads
        guard let row = try uploads.table.row(upload, in: call.step), row.job == call.handlerID else {
            return
        }
        if row.state == .uploaded, let link = row.link {
            try uploads.finish(row, UploadedFile(link: link), in: call.step)
        } else {
            try uploads.table.set(upload, .waiting, job: nil, in: call.step)
        }
        try uploads.advance(in: call.step)
    }
}

/// A service has answered the request for a slot.
struct UploadSlotAnswered: Handler {
    static let id = "upload.slot-answered"
    var upload: UploadID

    func run(_ call: borrowing Call<IQReply>) throws {
        let uploads = call.account.uploads
        guard let row = try uploads.table.row(upload, in: call.step), row.job == call.handlerID else {
            return
        }
        try uploads.answered(row, call.context, in: call.step)
        try uploads.advance(in: call.step)
    }
}

/// The answer can never come: the session was lost, or the account was logged out.
struct UploadSlotUnanswered: Handler {
    static let id = "upload.slot-unanswered"
    var upload: UploadID

    func run(_ call: borrowing Call<Invalidation>) throws {
        let uploads = try call.account.uploads
        guard let row = try uploads.table.row(upload, in: call.step), row.state == .asked else { return }
        try uploads.wait(row.id, .waiting, Uploads.lostDelay, in: call.step)
    }
}

/// Puts a file where its slot says.
struct UploadPut: AsyncHandler {
    static let id = "upload.put"
    // Processes may be killed while they upload, for example because their time is over.
    static let retry = RetryPolicy(attempts: 10, deaths: 50, finally: .orElse)
    var upload: UploadID

    func run(_ call: AsyncCall<TimerFired>) async throws {
        let uploads = try call.account.uploads
        guard let row = try uploads.current(upload, call.handlerID) else { return try call.end() }
        guard uploads.module != nil else { return try call.end { step in try uploads.advance(in: step) } }
        guard let slot = row.slot, let age = try uploads.age(of: row), age < Uploads.slotLife else {
            return try call.end { step in
                guard let row = try uploads.current(upload, call.handlerID, in: step) else { return }
                try uploads.renew(row, "its slot is too old", in: step)
                try uploads.advance(in: step)
            }
        }
        let outcome = try await uploads.transfer(row, to: slot, for: call.handlerID)
        try call.end { step in
            // Canceled meanwhile, it has ended.
            guard let row = try uploads.current(upload, call.handlerID, in: step) else { return }
            try uploads.transferred(row, outcome, isRepeated: call.attempt > 1, in: step)
            try uploads.advance(in: step)
        }
    }
}

/// The transfer of a file killed too many processes, or could not be stored.
struct UploadAbandoned: Handler {
    static let id = "upload.abandoned"
    var upload: UploadID

    func run(_ call: borrowing Call<Invalidation>) throws {
        let uploads = try call.account.uploads
        guard let row = try uploads.table.row(upload, in: call.step), row.state == .putting else { return }
        let error = UploadError(
            .abandoned, "the transfer of \(row.file.path) failed for good (\(call.reason)); look at the log")
        try uploads.fail(row, error, in: call.step)
        try uploads.advance(in: call.step)
    }
}

// MARK: - The search for the service

/// The server has named its items.
struct UploadItemsAnswered: Handler {
    static let id = "upload.items-answered"
    var round: Int64

    func run(_ call: borrowing Call<IQReply>) throws {
        try call.account.uploads.items(round, call.context, in: call.step)
    }
}

/// A candidate has said what it understands.
struct UploadServiceAnswered: Handler {
    static let id = "upload.service-answered"
    var round: Int64
    var jid: JID

    func run(_ call: borrowing Call<IQReply>) throws {
        try call.account.uploads.info(round, jid, call.context, in: call.step)
    }
}

/// An answer of the search can never come.
struct UploadServiceUnanswered: Handler {
    static let id = "upload.service-unanswered"
    var round: Int64

    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.account.uploads.lost(round, in: call.step)
    }
}

/// The time for another search has come.
struct UploadSearchDue: Handler {
    static let id = "upload.search-due"
    var round: Int64

    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.account.uploads.searchAgain(round, in: call.step)
    }
}
