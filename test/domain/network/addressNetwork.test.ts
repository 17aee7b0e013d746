import { assert, describe, it } from "@effect/vitest"
import { NetAddress } from "effect/net"
import { addressNetwork } from "../../../src/domain/network/addressNetwork.ts"

const networkOf = (address: string) => addressNetwork(NetAddress.ipFromStringUnsafe(address))

describe("addressNetwork", () => {
  it.each([
    ["8.8.8.8", "8.8.8.255", true],
    ["8.8.8.8", "8.8.9.8", false],
    ["2606:4700:1:2::1", "2606:4700:1:ffff::2", true],
    ["2606:4700:1::1", "2606:4700:2::1", false]
  ])("%s and %s are in one network: %s", (one, other, isOne) =>
    assert.strictEqual(networkOf(one) === networkOf(other), isOne)
  )
})
