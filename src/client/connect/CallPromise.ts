/** The results of calls: promises with the facts of their response, and lists that page by themselves. */

/** How many of the units of a limit are left, of a `RateLimit` header. */
export interface RateLimit {
  /** The limit, such as `key` or `stored_runs`. */
  readonly name: string
  /** The units that are left. */
  readonly remaining: number
}

/** A result with the facts of its response. */
export interface CallResponse<Result> {
  /** The result of the call. */
  readonly result: Result
  /** The HTTP status. */
  readonly status: number
  /** ID of the request. Include it when you report a problem. */
  readonly request_id: string | undefined
  /** The limits that apply to the request. */
  readonly rate_limits: ReadonlyArray<RateLimit>
  /** All headers of the response. */
  readonly headers: Headers
}

/** The result of a call. */
export interface CallPromise<Result> extends Promise<Result> {
  /** Resolves with the result and the facts of its response, such as its request ID. */
  readonly withResponse: () => Promise<CallResponse<Result>>
}

/** A page of a list. Iterated with `for await`, it yields the items of this page and of all that follow, each page requested as it is reached. */
export interface Pages<Page, Item> extends CallPromise<Page>, AsyncIterable<Item> {}

/** Makes the promise of a call from that of its response. */
export const callPromise = <Result>(sent: Promise<CallResponse<Result>>): CallPromise<Result> => {
  const promise = sent.then(({ result }) => result)
  const withResponse = () => {
    // The caller handles the failure by the other promise.
    promise.catch(() => undefined)
    return sent
  }
  return Object.assign(promise, { withResponse })
}

/** Reads the `RateLimit` header: `"key";r=499, "organization";r=999`. */
export const readRateLimits = (header: string | null): ReadonlyArray<RateLimit> =>
  [...(header ?? "").matchAll(/"([^"]+)"[^,]*?;r=(\d+)/g)].map(([, name = "", remaining]) => ({
    name,
    remaining: Number(remaining)
  }))

/** A page on the wire: its items, and the cursor of the next one. */
const pageOf = (page: unknown, items: string) => {
  const member = (name: string): unknown =>
    typeof page === "object" && page !== null ? Reflect.get(page, name) : undefined
  const list = member(items)
  return { cursor: member("next_cursor"), items: Array.isArray(list) ? list : [] }
}

/** Adds the iteration over all items to the promise of a page. `next` requests the page after a cursor. */
export const pagePromise = <Page>(
  first: CallPromise<Page>,
  items: string,
  next: (cursor: string) => Promise<Page>
): Pages<Page, unknown> =>
  Object.assign(first, {
    async *[Symbol.asyncIterator]() {
      let page = pageOf(await first, items)
      for (;;) {
        yield* page.items
        if (typeof page.cursor !== "string") return
        page = pageOf(await next(page.cursor), items)
      }
    }
  })
