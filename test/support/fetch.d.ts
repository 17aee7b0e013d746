/// <reference lib="dom" />

/** Node's `fetch` asks for this where a body is a stream; the browsers' types, which the console is checked with, do not know it. */
interface RequestInit {
  readonly duplex?: "half"
}
