/// A value of any Codable type in a JSON object, so that a number or a text can stand alone as well.
struct StoredValue<Value> {
    let value: Value
}

extension StoredValue: Encodable where Value: Encodable {}
extension StoredValue: Decodable where Value: Decodable {}
