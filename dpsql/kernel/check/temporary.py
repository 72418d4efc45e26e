"""Temporary values."""
from __future__ import annotations
from fractions import Fraction
from dpsql.kernel.check.values import Value, INFINITY
from dpsql.kernel.check.proof import whole_number, conjuncts, stripped
from dpsql.kernel.tree import *
from dpsql.types import SqlType, BIGINT
I=INFINITY
def mul(a,b): return 0 if 0 in (a,b) else a*b
def tr(a,b):
    if abs(a)==I: return a
    q=abs(a)//abs(b); return q if (a<0)==(b<0) else -q
class Temporary:
    def __init__(self, facts): self.facts=facts; self.memo={}
    def value(self, expr, select):
        lo,hi,n=self.rng(expr,select,{})
        f=lambda v: v if isinstance(v,int) or abs(v)==I else Fraction(v)
        return Value(BIGINT,f(lo),f(hi),n)
    def col(self, c, select):
        def find(src):
            match src:
                case Join(left=a,right=b):
                    return find(a) or find(b)
                case Derived(query=q,alias=al) if al==c.table or c.table=='':
                    return self.out(q,c.name)
                case Unnest(): return None
                case DomainScan(): return ((0,2**48,False) if c.name=='o' else (-I,I,False)) if c.table=='' else None
                case Values(rows=rows,columns=cols,alias=al) if c.table in('',al) and c.name in cols:
                    vs=[self.rng(r[cols.index(c.name)],select,{}) for r in rows]; return (min(v[0] for v in vs),max(v[1] for v in vs),any(v[2] for v in vs))
                case Range(start=a,stop=b,alias=al): return (a,b-1,False) if c.table in ('',al) else None
                case _: return None
        return find(select.source) or (-I,I,True)
    def out(self,q,name):
        k=(q,name)
        if k in self.memo: return self.memo[k]
        if isinstance(q,SetOperation):
            a=self.out(q.left,name)
            names=[i.name or getattr(i.expr,'name','') for i in q.left.items] if isinstance(q.left,Select) else []
            b=(-I,I,True)
            if name in names and isinstance(q.right,Select): b=self.rng(q.right.items[names.index(name)].expr,q.right,{})
            r=(min(a[0],b[0]),max(a[1],b[1]),a[2] or b[2])
        else:
            r=(-I,I,True)
            for i in q.items:
                if (i.name or getattr(i.expr,'name',''))==name: r=self.rng(i.expr,q,{}); break
        self.memo[k]=r; return r
    def rng(self,e,s,known):
        r=lambda x,k=known: self.rng(x,s,k)
        if e in known: return known[e]
        c=whole_number(e)
        if c is not None: return (c,c,False)
        match e:
            case Column(): return self.col(e,s)
            case Constant(value=v):
                return (v,v,False) if isinstance(v,(int,float)) and not isinstance(v,bool) and v==v else (Fraction(v),Fraction(v),False) if type(v).__name__=='Decimal' else (-I,I,v is None)
            case Paren(x): return r(x)
            case Aggregate(name=n,arguments=a):
                if n.upper()=='COUNT': return (0,2**48,False)
                if n.upper()=='SUM':
                    v=r(a[0]); return (min(0,mul(v[0],2**48)),max(0,mul(v[1],2**48)),True)
                if n.upper() in('MIN','MAX','AVG'): v=r(a[0]); return (v[0],v[1],True)
                return (-I,I,True)
            case Cast(x,type=ty):
                v=r(x)
                if ty.integer or ty.name in('HUGEINT',): return (v[0],v[1],v[2])
                if ty.name in ('DECIMAL','DOUBLE'): return v
                return (-I,I,True)
            case Try(x): v=r(x); return (v[0],v[1],True)
            case Steps(x,lo,hi): return (lo,hi,True)
            case Cut(low=lo,high=hi): return (lo,hi,True)
            case Unscaled(x,ty):
                v=r(x); m=10**ty.scale; p=10**ty.precision
                return (max(mul(v[0],m),-p),min(mul(v[1],m),p),True)
            case Window(function=f):
                n=f.name.upper()
                if n in('ROW_NUMBER','RANK','DENSE_RANK'): return (1,2**48,False)
                if isinstance(f,Aggregate): return r(f)
                return (-I,I,True)
            case Call(name,args):
                vs=[r(a) for a in args]; n=name.upper()
                if n=='COALESCE': return (min(v[0] for v in vs),max(v[1] for v in vs),all(v[2] for v in vs))
                if n=='LEAST': 
                    nn=[v for v in vs if not v[2]]
                    return (min(v[0] for v in vs),min((v[1] for v in nn),default=max(v[1] for v in vs)),all(v[2] for v in vs))
                if n=='GREATEST':
                    nn=[v for v in vs if not v[2]]
                    return (max((v[0] for v in nn),default=min(v[0] for v in vs)),max(v[1] for v in vs),all(v[2] for v in vs))
                if n=='ABS':
                    v=vs[0]; return (0 if v[0]<=0<=v[1] else min(abs(v[0]),abs(v[1])),max(abs(v[0]),abs(v[1])),v[2])
                return (-I,I,True)
            case Binary(op,a,b):
                x,y=r(a),r(b); n=x[2] or y[2]
                if op=='+': return (x[0]+y[0],x[1]+y[1],n)
                if op=='-': return (x[0]-y[1],x[1]-y[0],n)
                if op=='*':
                    ps=[mul(p,q) for p in x[:2] for q in y[:2]]; return (min(ps),max(ps),n)
                if op=='//' and y[0]==y[1] and y[0]>0: return (tr(x[0],y[0]),tr(x[1],y[0]),n)
                if op=='//' and y[0]>=1: return (min(x[0],0),max(x[1],0),n)
                if op=='%' and y[0]==y[1]: return (-abs(y[0]),abs(y[0]),n)
                return (-I,I,True)
            case Case(branches,default):
                found=[];k=dict(known)
                for cond,res in branches:
                    t=self.narrow(k,cond,True,s); f2=self.narrow(k,cond,False,s)
                    found.append(self.rng(res,s,t)); k=f2
                found.append(self.rng(default,s,k) if default is not None else (I,-I,True))
                return (min(v[0] for v in found),max(v[1] for v in found),any(v[2] for v in found))
        return (-I,I,not isinstance(e,(IsNull,)))
    def narrow(self,k,cond,truth,s):
        k=dict(k); cond=stripped(cond)
        if isinstance(cond,Binary) and cond.operator in('<','>','<=','>='):
            c=self.rng(cond.right,s,k)
            if c[0]==c[1] and abs(c[0])!=I:
                c=c[0]; v=k.get(cond.left) or self.rng(cond.left,s,k)
                below=(cond.operator in('<','<='))==truth
                nl=v[2] if not truth else False
                k[cond.left]=(v[0],min(v[1],c),nl) if below else (max(v[0],c),v[1],nl)
        return k
