/// <reference lib="dom" />

/** Node's `fetch` requires `duplex` for a streamed body. The DOM types, against which the console is checked, lack it. */
interface RequestInit {
  readonly duplex?: "half"
}
