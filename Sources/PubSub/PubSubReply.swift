import XMPPAccount
import XMPPCore

/// The answer to an operation, not read yet. What it means is decided here, without store or clock.
struct PubSubReply: Sendable {
    /// The address of the node; nil for the own account.
    let asked: JID?
    /// The node; nil for the service as a whole.
    let node: ForeignText?
    let reply: IQReply

    var account: Account { reply.account }
    var service: JID { asked ?? own }
    var outcome: IQReply.Outcome { reply.outcome }
    /// Whether a publication was refused because the node is configured otherwise than required.
    var isUnmet: Bool {
        guard case .error(let error) = outcome else { return false }
        return PubSubError(error, in: reply.iq).condition == .preconditionNotMet
    }
    private var own: JID { account.address }

    // MARK: Items

    var fetch: PubSubFetch {
        PubSubFetch(
            reply: self, subject: .items,
            outcome: PubSubReading.fetch(outcome, in: reply.iq, node: node ?? ""))
    }

    func page(_ request: PubSubPage.Request) -> PubSubAnswer<PubSubPage> {
        let node = node ?? ""
        return answer(.page(request: request)) { payload throws(PubSubError) in
            PubSubPage(
                items: try PubSubReading.items(payload, node: node),
                page: payload.flatMap { ResultPage(in: $0) },
                index: payload.flatMap { PubSubReading.index($0) },
                node: node, request: request)
        }
    }

    func publication(itemID: ForeignText?) -> PubSubPublication {
        PubSubPublication(
            reply: self, subject: .publish(itemID: itemID),
            outcome: PubSubReading.publish(outcome, in: reply.iq, itemID: itemID))
    }

    // MARK: Nodes

    var completion: PubSubCompletion { answer(.change) { (_) throws(PubSubError) in } }

    /// The answer names the node where the service chose its name, and need not otherwise (section 8.1.1).
    var creation: PubSubAnswer<ForeignText> {
        let node = node
        return answer(.create) { payload throws(PubSubError) in
            let created = PubSubReading.child("create", Namespaces.pubsub, of: payload)?["node"]
            guard let name = created ?? node else { throw .nonsense("the answer does not name the new node") }
            return name
        }
    }

    func form(_ form: PubSubForm) -> PubSubAnswer<DataForm> {
        let node = node
        return answer(.form(form: form)) { payload throws(PubSubError) in
            let holder = PubSubReading.child(form.name, form.namespace, of: payload)
            let named = holder?["node"]
            guard named == nil || node == nil || named == node,
                let element = holder?.child("x", Namespaces.dataForms), let read = DataForm(element)
            else { throw .nonsense("the answer holds no form of <\(form.name)/>") }
            return read
        }
    }

    // MARK: Subscriptions and affiliations

    /// An answer that says nothing beyond success means what was asked for.
    func subscription(_ jid: JID?) -> PubSubAnswer<PubSubSubscription> {
        let (node, jid) = (node, jid ?? own)
        return answer(.subscribe(jid: jid)) { payload throws(PubSubError) in
            guard let element = PubSubReading.child("subscription", Namespaces.pubsub, of: payload) else {
                return PubSubSubscription(jid, .subscribed, node: node)
            }
            guard let read = PubSubSubscription(element, node: node, jid: jid, state: .subscribed),
                read.node == node
            else { throw .nonsense("the answer speaks of another subscription") }
            return read
        }
    }

    func subscriptions(_ list: PubSubList) -> PubSubAnswer<[PubSubSubscription]> {
        let node = node
        return answer(.subscriptions(list: list)) { payload throws(PubSubError) in
            try PubSubReading.list("subscriptions", list, payload, node: node)
                .children("subscription", list.namespace)
                .compactMap { PubSubSubscription($0, node: node, jid: nil) }
        }
    }

    /// Lists of the own affiliations need not repeat the own address (section 5.7).
    func affiliations(_ list: PubSubList) -> PubSubAnswer<[PubSubAffiliation]> {
        let (node, own) = (node, list == .own ? own : nil)
        return answer(.affiliations(list: list)) { payload throws(PubSubError) in
            try PubSubReading.list("affiliations", list, payload, node: node)
                .children("affiliation", list.namespace)
                .compactMap { PubSubAffiliation($0, node: node, jid: own) }
        }
    }

    private func answer<Value>(
        _ subject: PubSubSubject, _ read: (Element?) throws(PubSubError) -> Value
    ) -> PubSubAnswer<Value> {
        PubSubAnswer(
            reply: self, subject: subject, outcome: PubSubReading.outcome(outcome, in: reply.iq, read))
    }
}

/// The reading of the parts of an answer.
enum PubSubReading {
    static func outcome<Value>(
        _ reply: IQReply.Outcome, in iq: IQ, _ read: (Element?) throws(PubSubError) -> Value
    ) -> PubSubAnswer<Value>.Outcome {
        switch reply {
        case .timeout: return .timedOut
        case .error(let stanzaError):
            let error = PubSubError(stanzaError, in: iq)
            return error.isNotFound ? .notFound : .error(error)
        case .result(let payload):
            do throws(PubSubError) {
                return .success(try read(payload))
            } catch { return .error(error) }
        }
    }

    static func fetch(_ reply: IQReply.Outcome, in iq: IQ, node: ForeignText) -> PubSubFetch.Outcome {
        outcome(reply, in: iq) { payload throws(PubSubError) in try items(payload, node: node) }
    }

    static func publish(_ reply: IQReply.Outcome, in iq: IQ, itemID: ForeignText?)
        -> PubSubPublication.Outcome
    {
        // The answer names the item only where the service chose its id, and need not even then (section 7.1.2).
        outcome(reply, in: iq) { payload throws(PubSubError) in
            let publish = child("publish", Namespaces.pubsub, of: payload)
            return publish?.child("item", Namespaces.pubsub)?["id"] ?? itemID
        }
    }

    static func items(_ payload: Element?, node: ForeignText) throws(PubSubError) -> [PubSubItem] {
        // An answer about something else must not be read as "no items".
        guard let items = child("items", Namespaces.pubsub, of: payload), items["node"] == node else {
            throw .nonsense("the answer does not speak of the items of '\(node)'")
        }
        return items.children("item", Namespaces.pubsub).map { PubSubItem($0) }
    }

    static func list(
        _ name: String, _ list: PubSubList, _ payload: Element?, node: ForeignText?
    ) throws(PubSubError) -> Element {
        let element = child(name, list.namespace, of: payload)
        let named = element?["node"]
        guard let element, named == nil || node == nil || named == node else {
            throw .nonsense("the answer holds no list of \(name)")
        }
        return element
    }

    /// The place of a page's first item in the whole (XEP-0059 section 2.6).
    static func index(_ payload: Element) -> Int? {
        (try? payload.value(at: "{\(Namespaces.rsm)}set/first/@index", as: Int.self)).flatMap {
            $0 >= 0 ? $0 : nil
        }
    }

    static func child(_ name: String, _ namespace: String, of payload: Element?) -> Element? {
        guard let payload, payload.has(name: "pubsub", namespace: namespace) else { return nil }
        return payload.child(name, namespace)
    }
}
