import type { Reading } from "./useReading.ts"

/**
 * Says why nothing can be approved yet: something is folded, or was not on the screen. Its line stays afterwards, because the page would move
 * under the pointer of somebody who has scrolled to the end. It is there before the first measurement too: lines that it will cover must not
 * count as seen.
 */
export const ReadingHint = ({ reading: { folds, isSeen, wasUnread } }: { readonly reading: Reading }) =>
  isSeen && !wasUnread ? null : (
    <p className="decide-hint reading-hint">
      <span data-over={isSeen ? "" : undefined}>
        {folds === 0
          ? "There is more below."
          : folds === 1
            ? "1 part is not shown."
            : `${folds.toLocaleString("en")} parts are not shown.`}{" "}
        Approving needs everything on the screen first.
      </span>
      {isSeen ? <span>Everything was on the screen.</span> : null}
    </p>
  )
