import TestThreads
import Testing
import XMPPCore

@Suite(.ownThread) struct StanzaIDTests {
    @Test(
        "Q1 an id has 32 hexadecimal digits, each of which may have any value by itself, and none comes twice"
    )
    func digits() {
        let ids = (0..<1000).map { _ in Array(StanzaID.random().utf8) }
        #expect(Set(ids).count == 1000)
        let digits = Set("0123456789abcdef".utf8)
        for place in 0..<32 {
            // A digit is missing once in 10^25.
            #expect(Set(ids.map { $0[place] }) == digits, "place \(place)")
            // One in 16 has what stands in another place: 200 of 1000 never do.
            for other in 0..<place {
                #expect(ids.count { $0[place] == $0[other] } < 200, "places \(other) and \(place)")
            }
        }
        #expect(ids.allSatisfy { $0.count == 32 })
    }
}
