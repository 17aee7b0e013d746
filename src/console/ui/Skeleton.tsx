/** A loading placeholder. For `useReading`, what it stands for is not shown yet. */
export const Skeleton = ({ lines = 5 }: { readonly lines?: number }) => (
  <div className="skeleton" role="status" aria-label="Loading" data-fold="">
    {Array.from({ length: lines }, (_, index) => (
      <span key={index} />
    ))}
  </div>
)
