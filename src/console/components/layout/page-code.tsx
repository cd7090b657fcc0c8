import { useEffect, useState } from 'preact/hooks';
import { Loading } from '../feedback/problem.tsx';

let underWay = 0;
let tell: (isLoading: boolean) => void = () => {};

/** Returns the code of a page when it has come. Until then, `PageCodeLoading` says that it loads. */
export async function pageCode<Code>(code: Promise<Code>): Promise<Code> {
  underWay++;
  tell(true);
  try {
    return await code;
  } finally {
    underWay--;
    tell(underWay > 0);
  }
}

/** Says that a page was opened whose code is on its way. The page before stays until it is there. */
export function PageCodeLoading() {
  const [isLoading, setLoading] = useState(underWay > 0);
  useEffect(() => {
    tell = setLoading;
    setLoading(underWay > 0);
    return () => {
      tell = () => {};
    };
  }, []);
  return isLoading ? <Loading over /> : null;
}
