/** Says why nothing can be approved yet: something is folded, or was not on the screen. */
export const ReadingHint = ({ folds }: { readonly folds: number }) => (
  <p className="decide-hint">
    {folds === 0
      ? "There is more below."
      : folds === 1
        ? "1 part is not shown."
        : `${folds.toLocaleString("en")} parts are not shown.`}{" "}
    Approving needs everything on the screen first.
  </p>
)
