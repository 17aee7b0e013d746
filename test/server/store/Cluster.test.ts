import { assert, describe, it } from "vitest"
import { type ClusterFacts, refusalOf } from "../../../src/server/store/Cluster.ts"

const usable: ClusterFacts = { version: "13.2-1", group: 0, host: "db.internal", workers: ["one.internal"] }

describe("A Citus cluster", () => {
  it.each<[string, Partial<ClusterFacts>]>([
    ["with the oldest version that the tests ran on", {}],
    ["with a newer minor version", { version: "13.10-1" }],
    ["with a newer major version", { version: "14.0-1" }],
    ["of one node, whose name is localhost", { host: "localhost", workers: [] }],
    ["whose nodes are all on one machine", { host: "127.0.0.1", workers: ["127.0.0.1", "localhost"] }]
  ])("%s can be used", (_, facts) => {
    assert.isUndefined(refusalOf({ ...usable, ...facts }))
  })

  it.each<[string, Partial<ClusterFacts>, RegExp]>([
    [
      "with an older minor version",
      { version: "13.1-2" },
      /has Citus 13\.1-2, but countersign needs 13\.2 or newer/
    ],
    ["with an older major version", { version: "12.8-1" }, /update the extension on every node/],
    [
      "of which the connection leads to a worker",
      { group: 4 },
      /leads to a worker .* address of the cluster's coordinator/
    ],
    ["whose coordinator has no address", { host: null }, /citus_set_coordinator_host/],
    [
      "whose worker takes the coordinator's address for itself",
      { host: "localhost" },
      /by which the workers reach it/
    ],
    [
      "whose coordinator has the address of the own machine",
      { host: "127.0.0.1" },
      /by which the workers reach it/
    ]
  ])("%s is refused in one sentence", (_, facts, reason) => {
    const refusal = refusalOf({ ...usable, ...facts })
    assert.match(refusal ?? "", reason)
  })
})
