/// The common part of the errors of stanzas and streams (RFC 6120 sections 4.9.2 and 8.3.2).
protocol ConditionedError {
    var condition: OpenName<Self> { get set }
    var text: ForeignText? { get set }
    var language: ForeignText? { get set }
    var alternateAddress: ForeignText? { get set }
    var applicationCondition: Element? { get set }
}

extension ConditionedError {
    /// - Parameter namespace: The namespace of the conditions that RFC 6120 defines.
    mutating func read(_ children: [Element], in namespace: String) {
        for child in children {
            if child.namespace != namespace {
                applicationCondition = applicationCondition ?? child
            } else if child.name == "text" {
                text = child.text
                language = child["xml:lang"]
            } else {
                condition = OpenName(rawValue: child.name)
                alternateAddress = child.text.isEmpty ? nil : child.text
            }
        }
    }

    func children(in namespace: String) -> [Element] {
        let condition = Element(condition.rawValue, namespace: namespace, text: alternateAddress)
        let sentence = text.map {
            Element("text", namespace: namespace, attributes: ["xml:lang": language], text: $0)
        }
        return [condition, sentence, applicationCondition].compactMap(\.self)
    }
}
