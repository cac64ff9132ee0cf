import Handlers
import TestSupport
import TestThreads
import Testing

@testable import XMPPAccount

/// The file and the socket that the accounts of a store share.
@Suite(.ownThread) struct StoreOwnersTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func store() throws -> HandlerStore {
        try HandlerStore(
            path: folder.path + "/app.db", registry: HandlerRegistry([]), schemas: Account.coreSchemas)
    }

    @Test("W4 an account has one lock, for another part of the same store and for another store")
    func locks() throws {
        let (store, other) = (try store(), try store())
        let files = OwnerFiles()
        let first = try files.open(account: 1, store)
        let second = try files.open(account: 1, store)
        let third = try files.open(account: 1, other)
        let neighbor = try files.open(account: 2, other)
        #expect(first.tryToLock() && first.tryToLock() && neighbor.tryToLock())
        #expect(!second.tryToLock() && !third.tryToLock())
        second.unlock()
        #expect(!third.tryToLock())
        #expect(files.isLocked(account: 1, store) && files.isLocked(account: 1, other))
        first.unlock()
        #expect(!files.isLocked(account: 1, other) && files.isLocked(account: 2, store))
        #expect(second.tryToLock() && !first.tryToLock() && !third.tryToLock())
    }

    @Test("W4 the lock of a place that is given up without a word is free")
    func abandoned() throws {
        let (store, other) = (try store(), try store())
        let files = OwnerFiles()
        let kept = try files.open(account: 2, store)
        do {
            let place = try files.open(account: 1, store)
            #expect(place.tryToLock())
        }
        #expect(try files.open(account: 1, other).tryToLock())
        withExtendedLifetime(kept) {}
    }

    @Test("A2 the records of accounts that share a file are apart")
    func records() throws {
        let store = try store()
        let files = OwnerFiles()
        let places = try (1...40).map { try files.open(account: $0, store) }
        for (number, place) in places.enumerated() { place.record(SentProgress(epoch: Int64(number))) }
        places[7].record(SentProgress(epoch: 1000))
        for number in 1..<40 {
            let epoch = number == 7 ? 1000 : Int64(number)
            #expect(files.sent(account: Int64(number) + 1, store) == SentProgress(epoch: epoch))
            #expect(places[number].sent == SentProgress(epoch: epoch))
        }
        // A record of zeros is none, as in a file that was never written there.
        #expect(files.sent(account: 1, store) == nil && files.sent(account: 41, store) == nil)
    }
}
