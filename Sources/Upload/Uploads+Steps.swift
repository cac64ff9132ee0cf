import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

// From one state of an upload to the next; each function is a part of a step.
extension Uploads {
    /// The time for which a slot is used. XEP-0363 section 8 recommends to services that it be valid for 300 s.
    static let slotLife = Duration.seconds(270)
    /// The wait after the outbox refused a stanza.
    static let outboxDelay = Duration.seconds(10)
    /// The wait of a request that can never be answered.
    static let lostDelay = Duration.seconds(1)

    private var services: UploadServiceTable { UploadServiceTable(account: account.id) }

    /// Goes on with what waits, as far as there is a service and room.
    func advance(in step: borrowing Step) throws {
        // Removed while there was no session: it was not asked to end.
        guard module != nil else { return try endAll(in: step) }
        // One that fails at once makes room for the next one.
        while let row = try table.ready(limit: 1, in: step).first {
            guard let service = try service(in: step) else { return try search(in: step) }
            guard try table.active(in: step) < Self.slots else { return }
            try ask(service, for: row, in: step)
        }
    }

    /// Nil when it was removed from the running account.
    var module: UploadModule? { try? account.module() }

    /// Ends every upload, as nothing would continue them.
    func endAll(in step: borrowing Step) throws {
        for row in try table.rows(limit: Self.limit, in: step) {
            try fail(row, UploadError(.cancelled, "the module that uploads was removed"), in: step)
        }
    }

    private func service(in step: borrowing Step) throws -> UploadServiceTable.Service? {
        if let service = module?.service { return .init(jid: service, maximum: nil) }
        return try services.service(in: step)
    }

    // MARK: waiting ─▶ asked

    private func ask(
        _ service: UploadServiceTable.Service, for row: UploadTable.Row, in step: borrowing Step
    ) throws {
        if let maximum = service.maximum, row.size > maximum {
            return try fail(row, .tooLarge(row.size, maximum: maximum), in: step)
        }
        let request = SlotRequest.element(name: row.file.name, size: row.size, type: row.file.type)
        do {
            let then = try UploadSlotAnswered(upload: row.id).durable
            let job = try account.send(
                request: IQ(type: .get, to: service.jid, id: StanzaID.random(), payload: request),
                then: then.orElse(UploadSlotUnanswered(upload: row.id).durable), in: step)
            try table.set(row.id, .asked, job: AnyHandlerID(job), in: step)
        } catch let error as AccountError {
            guard error.code == .outboxFull else { return try fail(row, .notSent(error), in: step) }
            account.log(.warning, .upload, "upload \(row.id) waits: \(error)", after: step)
            try wait(row.id, .waiting, Self.outboxDelay, in: step)
        }
    }

    /// Waits until a timer continues it.
    func wait(_ id: UploadID, _ state: UploadTable.State, _ delay: Duration, in step: borrowing Step) throws {
        let timer = try step.schedule(UploadDue(upload: id).durable, after: delay, in: account.scope)
        try table.set(id, state, job: AnyHandlerID(timer), in: step)
    }

    // MARK: asked ─▶ putting

    func answered(_ row: UploadTable.Row, _ reply: IQReply, in step: borrowing Step) throws {
        switch reply.outcome {
        case .result(let payload):
            let slot: UploadSlot
            do { slot = try UploadSlot(payload) } catch { return try fail(row, error, in: step) }
            try put(row, at: slot, in: step)
        case .error(let error):
            if error.saysThatServiceIsGone { try services.forget(in: step) }
            if let failure = SlotRequest.failure(error, in: reply.iq, size: row.size) {
                return try fail(row, failure, in: step)
            }
            var failure = UploadError(.refused, "the upload service refused with \(error.condition)")
            failure.condition = error.condition.rawValue
            try again(row, failure, in: step)
        case .timeout:
            try services.forget(in: step)
            try again(row, UploadError(.noService, "the upload service does not answer"), in: step)
        }
    }

    private func put(_ row: UploadTable.Row, at slot: UploadSlot, in step: borrowing Step) throws {
        let put = try UploadPut(upload: row.id).durable.orElse(UploadAbandoned(upload: row.id).durable)
        let job = try step.schedule(put, after: .zero, in: account.scope)
        try table.set(row.id, slot: slot, in: step)
        try table.set(row.id, .putting, job: AnyHandlerID(job), in: step)
        account.log(.verbose, .upload, "upload \(row.id) goes to \(slot.host)", after: step)
        try UploadFailpoint.slot.hit()
    }

    // MARK: asked or putting ─▶ waiting

    /// Counts a failure: another slot after a while, or the end.
    func again(_ row: UploadTable.Row, _ error: UploadError, in step: borrowing Step) throws {
        let attempts = row.attempts + 1
        guard let module, !error.isFinal, attempts < module.retry.attempts else {
            return try fail(row, error, in: step)
        }
        try table.setAttempts(attempts, of: row.id, in: step)
        let delay = module.retry.delay(after: attempts, seed: row.id.rawValue)
        account.log(.warning, .upload, "upload \(row.id) is tried again in \(delay): \(error)", after: step)
        try table.set(row.id, slot: nil, in: step)
        try wait(row.id, .waiting, delay, in: step)
    }

    /// Asks for another slot at once, without counting a failure.
    func renew(_ row: UploadTable.Row, _ reason: String, in step: borrowing Step) throws {
        account.log(.info, .upload, "upload \(row.id) needs another slot: \(reason)", after: step)
        try table.set(row.id, slot: nil, in: step)
        try table.set(row.id, .waiting, job: nil, in: step)
    }

    // MARK: The end

    func fail(_ row: UploadTable.Row, _ error: UploadError, in step: borrowing Step) throws {
        account.log(.warning, .upload, "upload \(row.id) failed: \(error)", after: step)
        try end(row, .failed(error), messageID: nil, in: step)
    }

    /// The server has the file: sends the message and ends the program's handler, together.
    func finish(_ row: UploadTable.Row, _ file: UploadedFile, in step: borrowing Step) throws {
        var messageID: String?
        do {
            try step.undoingOnError {
                messageID = try row.recipient.map { try send(file, to: $0, in: step) }
            }
        } catch let error as AccountError {
            guard error.code == .outboxFull else { return try fail(row, .notSent(error), in: step) }
            account.log(.warning, .upload, "the message of upload \(row.id) waits: \(error)", after: step)
            try table.set(row.id, link: file.link, in: step)
            return try wait(row.id, .uploaded, Self.outboxDelay, in: step)
        }
        account.log(.info, .upload, "upload \(row.id) is at \(file)", after: step)
        try end(row, .uploaded(file), messageID: messageID, in: step)
        try UploadFailpoint.ended.hit()
    }

    private func end(
        _ row: UploadTable.Row, _ outcome: UploadEnded.Outcome, messageID: String?, in step: borrowing Step
    ) throws {
        try table.remove(row.id, in: step)
        account.report(UploadEvent(upload: row.id, change: .ended(outcome)), after: step)
        guard let handler = row.handler else { return }
        let context = UploadEnded(
            account: account, upload: row.id, file: row.file, messageID: messageID, outcome: outcome)
        do {
            let isSuccess = if case .uploaded = outcome { true } else { false }
            try step.end(handler, isSuccess ? .result : .error, with: context)
        } catch let error as HandlerError where error.code == .noSuchHandler {
            // The program has invalidated or discarded it.
        }
    }

    /// The link as text, and as an attachment (XEP-0066 section 3).
    private func send(_ file: UploadedFile, to recipient: JID, in step: borrowing Step) throws -> String {
        let url = Element("url", namespace: UploadWire.outOfBand, text: file.address)
        let attachment = Element("x", namespace: UploadWire.outOfBand, children: [url])
        let message = Message(to: recipient, body: file.address, children: [attachment])
        if let _: RoomsModule = try? account.module(), try account.rooms.room(recipient, in: step) != nil {
            return try account.rooms.send(message, to: recipient, in: step)
        }
        if let _: ChatModule = try? account.module() { return try account.chat.send(message, in: step) }
        return try account.send(message, in: step)
    }
}

extension StanzaError {
    /// Whether what was asked may be no upload service any more.
    fileprivate var saysThatServiceIsGone: Bool {
        [
            .serviceUnavailable, .itemNotFound, .remoteServerNotFound, .remoteServerTimeout, .gone,
            .featureNotImplemented,
        ]
        .contains(condition)
    }
}
