import { lazy, Suspense } from "react"
import type * as firstRecords from "./firstRecord/firstRecords.ts"
import { Skeleton } from "./Skeleton.tsx"

const Guide = lazy(() => import("./firstRecord/Guide.tsx"))

/**
 * An empty page before its first record: what appears here, and the requests that make one arrive. `of` chooses the text among
 * `firstRecords`; `look` reads the list again, every few seconds while the page is visible.
 */
export const FirstRecord = (props: {
  readonly of: (records: typeof firstRecords, origin: string) => firstRecords.FirstRecord
  readonly look?: () => void
}) => (
  // Loaded with the first empty page, because most pages have records.
  <Suspense fallback={<Skeleton />}>
    <Guide {...props} />
  </Suspense>
)
