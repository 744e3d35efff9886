// start.js - both tiers share one page; the address says which of them this is.
import(location.pathname.startsWith('/vwr/') ? './vwr.js' : './queue.js');
