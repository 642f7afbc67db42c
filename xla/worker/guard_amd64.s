#include "textflag.h"

// onFault handles SIGSEGV (DI: signal, SI: siginfo_t, DX: ucontext_t). For an address in the arena it writes
// "passgate: fault ADDRESS", sixteen hexadecimal digits, to standard error. Then it goes on as the handler that was
// there before: onFault has no frame and gives the registers back as it got them.
TEXT ·onFault(SB),NOSPLIT|NOFRAME,$0
	MOVQ 16(SI), R8 // si_addr
	MOVQ R8, R9
	MOVQ $0x2a0000000000, R10 // arenaBase
	SUBQ R10, R9
	MOVQ $0x40000000000, R10 // maxSets << setShift
	CMPQ R9, R10
	JCC  forward

	SUBQ $64, SP
	MOVQ DI, 40(SP)
	MOVQ SI, 48(SP)
	MOVQ DX, 56(SP)
	MOVQ $0x6574616773736170, R9 // "passgate"
	MOVQ R9, 0(SP)
	MOVQ $0x20746c756166203a, R9 // ": fault "
	MOVQ R9, 8(SP)
	MOVB $10, 32(SP)
	MOVQ $15, R10

digit:
	MOVQ R8, R9
	ANDQ $15, R9
	ADDQ $48, R9 // '0'
	CMPQ R9, $58
	JCS  store
	ADDQ $39, R9 // 'a' - '9' - 1

store:
	LEAQ 16(SP), R11
	ADDQ R10, R11
	MOVB R9, (R11)
	SHRQ $4, R8
	SUBQ $1, R10
	JCC  digit

	MOVQ $1, AX // write
	MOVQ $2, DI
	MOVQ SP, SI
	MOVQ $33, DX
	SYSCALL
	MOVQ 40(SP), DI
	MOVQ 48(SP), SI
	MOVQ 56(SP), DX
	ADDQ $64, SP

forward:
	MOVQ ·faultHandler(SB), AX
	JMP  AX

// func onFaultAddress() uintptr
TEXT ·onFaultAddress(SB),NOSPLIT,$0-8
	LEAQ ·onFault(SB), AX
	MOVQ AX, ret+0(FP)
	RET
