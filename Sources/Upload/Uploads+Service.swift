import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

// The search for the upload service: the server and everything that it names are asked at the same time (XEP-0363 section 3).
extension Uploads {
    /// The maximum number of the server's items that are queried.
    static let candidateLimit = 32
    /// The maximum number of searches if some items gave no answer.
    static let searchLimit: Int64 = 5
    static let searchDelay = Duration.seconds(30)

    private var services: UploadServiceTable { UploadServiceTable(account: account.id) }

    /// Starts to search, unless that is being done.
    func search(in step: borrowing Step) throws {
        let search = try services.search(in: step)
        guard search.open <= 0 else { return }
        let round = try services.start(open: 2, tries: search.tries, in: step)
        let server = account.address.domainJID
        try query(Namespaces.discoItems, server, UploadItemsAnswered(round: round).durable, round, in: step)
        try query(server, round, in: step)
    }

    private func query(_ jid: JID, _ round: Int64, in step: borrowing Step) throws {
        let then = try UploadServiceAnswered(round: round, jid: jid).durable
        try query(Namespaces.discoInfo, jid, then, round, in: step)
    }

    private func query(
        _ namespace: String, _ jid: JID, _ then: Durable<IQReply>, _ round: Int64, in step: borrowing Step
    ) throws {
        let query = Element("query", namespace: namespace)
        do {
            try account.send(
                .iq(IQ(type: .get, to: jid, id: StanzaID.random(), payload: query)), then: then,
                orElse: UploadServiceUnanswered(round: round).durable, in: step)
        } catch is AccountError {
            // The outbox is full: as if nobody had answered.
            try closed(round, isSilent: true, in: step)
        }
    }

    func items(_ round: Int64, _ reply: IQReply, in step: borrowing Step) throws {
        guard try services.search(in: step).round == round else { return }
        let server = account.address.domainJID
        if case .result(let payload?) = reply.outcome {
            var jids: [JID] = []
            for item in payload.children("item", Namespaces.discoItems) where jids.count < Self.candidateLimit
            {
                guard let jid = item["jid"].flatMap({ try? JID(received: $0) }), jid != server,
                    !jids.contains(jid),
                    item["node"] == nil
                else { continue }
                jids.append(jid)
            }
            try services.add(open: jids.count, silent: 0, in: step)
            for jid in jids { try query(jid, round, in: step) }
        }
        try closed(round, isSilent: Self.isSilent(reply), in: step)
    }

    func info(_ round: Int64, _ jid: JID, _ reply: IQReply, in step: borrowing Step) throws {
        guard try services.search(in: step).round == round else { return }
        if case .result(let payload?) = reply.outcome, let info = DiscoInfo(payload),
            info.features.contains(ForeignText(UploadWire.namespace))
        {
            let form = info.forms.first { $0.formType == UploadWire.namespace }
            let maximum = SlotRequest.size(form?[UploadWire.maximumSize])
            try services.set(.init(jid: jid, maximum: maximum), in: step)
            account.log(
                .info, .upload, "\(jid) takes files of \(maximum.map { "\($0) bytes" } ?? "any size")",
                after: step)
        }
        try closed(round, isSilent: Self.isSilent(reply), in: step)
    }

    private static func isSilent(_ reply: IQReply) -> Bool {
        switch reply.outcome {
        case .result: false
        case .error(let error): error.kind == .wait
        case .timeout: true
        }
    }

    /// A question has got its answer, or never will.
    func closed(_ round: Int64, isSilent: Bool, in step: borrowing Step) throws {
        try services.add(open: -1, silent: isSilent ? 1 : 0, in: step)
        let search = try services.search(in: step)
        if try services.service(in: step) != nil { return try advance(in: step) }
        guard search.round == round, search.open <= 0 else { return }
        if search.silent > 0, search.tries < Self.searchLimit {
            try services.start(open: 1, tries: search.tries + 1, in: step)
            let due = UploadSearchDue(round: round &+ 1)
            try step.schedule(due.durable, after: Self.searchDelay, in: account.scope)
            return
        }
        try services.start(open: 0, in: step)
        let error = UploadError(
            .noService,
            "\(account.configuration.jid.domain) names no upload service; name one in UploadModule")
        for row in try table.ready(limit: Self.limit, in: step) { try fail(row, error, in: step) }
    }

    /// A question of that search can never be answered.
    func lost(_ round: Int64, in step: borrowing Step) throws {
        guard try services.search(in: step).round == round else { return }
        try closed(round, isSilent: true, in: step)
    }

    /// The time for another search has come.
    func searchAgain(_ round: Int64, in step: borrowing Step) throws {
        let search = try services.search(in: step)
        guard search.round == round else { return }
        try services.start(open: 0, tries: search.tries, in: step)
        try advance(in: step)
    }
}
