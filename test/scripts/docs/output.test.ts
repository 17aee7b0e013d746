import { assert, describe, it } from "@effect/vitest"
import { containsOutput, isOutput } from "../../../scripts/docs/output.ts"

const ID = "apr_01a1fcdab2c5734c8048b7c2fed803dd"
const OTHER_ID = "apr_01a202fc365374a09f4e38a5940fa71d"

describe("the output that a document shows", () => {
  it("matches output that differs in ids, times, digests and keys only", () => {
    const shown = `{"approval_id":"${ID}","at":"2026-11-21T07:45:53.474Z","digest":"${"a".repeat(64)}"}`
    const actual = `{"approval_id":"${OTHER_ID}","at":"2027-01-02T00:00:00Z","digest":"${"b".repeat(64)}"}`
    assert.isTrue(isOutput(shown, actual))
  })

  it("does not match output with another kind of id, another value, or another line", () => {
    assert.isFalse(isOutput(ID, OTHER_ID.replace("apr_", "ses_")))
    assert.isFalse(isOutput('"allow"', '"reject"'))
    assert.isFalse(isOutput("one", "one\ntwo"))
    assert.isFalse(isOutput("one\ntwo", "one"))
  })

  it("matches JSON whose lines are broken elsewhere", () => {
    assert.isTrue(isOutput('{ "names": ["a", "b"] }', '{\n  "names": [\n    "a",\n    "b"\n  ]\n}\n'))
    assert.isFalse(isOutput('{ "names": ["a"] }', '{ "names": ["a", "b"] }'))
  })

  it("matches any rest of a value by `…`, and any number of lines by `…` alone on a line", () => {
    assert.isTrue(isOutput("live: …", "live: 0.333"))
    assert.isFalse(isOutput("live: …", "candidate: 1"))
    assert.isTrue(isOutput("first\n…\nlast", "first\n1\n2\nlast"))
    assert.isTrue(isOutput("first\n…\nlast", "first\nlast"))
    assert.isFalse(isOutput("first\n…\nlast", "first\n1"))
  })

  it("takes characters of regular expressions literally", () => {
    assert.isFalse(isOutput("a.c (1+)", "abc (11)"))
    assert.isTrue(isOutput("a.c (1+)", "a.c (1+)"))
  })

  it("can be a part of the output of a background block, with its indentation", () => {
    const log = "Listening\n\n  <- POST /\n    content-length: 12\n\n  verified: test\n"
    assert.isTrue(containsOutput("  <- POST /\n    …\n  verified: test", log))
    assert.isFalse(containsOutput("  <- GET /\n    …\n  verified: test", log))
  })
})
